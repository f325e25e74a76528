"""Build the sdist and the wheel, check both, and try the wheel alone with each extra:
``make dist``.

Environments are made in temporary folders; ``python tools/check_dist.py core cli``
tries only these.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOT_FOR_USERS = {"all", "dev", "docs", "reproduce"}
"""Extras that are sums of others, or for work in a checkout."""
NEEDED = [
    "CHANGELOG.md",
    "CITATION.cff",
    "LICENSE",
    "Makefile",
    "README.md",
    "docs/index.md",
    "reproduce/__main__.py",
    "tests/conftest.py",
]


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """Run it, or end here; what the caller's PYTHONPATH holds is no part of the
    wheel.
    """
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }
    subprocess.run(
        [str(word) for word in command], check=True, cwd=cwd, env=environment
    )


def extras() -> list[str]:
    """The core, and every extra that pyproject.toml offers to users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [
        "core",
        *(
            name
            for name in project["optional-dependencies"]
            if name not in NOT_FOR_USERS
        ),
    ]


def built() -> Path:
    """The wheel, after the checks of both files."""
    for old in (ROOT / "dist").glob("fedconformal-*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", ROOT / "dist", ROOT)
    sdist, wheel = sorted(
        (ROOT / "dist").glob("fedconformal-*"), key=lambda path: path.suffix
    )
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    run(sys.executable, "-m", "check_wheel_contents", wheel)
    wrong = [*lacking(sdist), *relative_links(wheel)]
    if wrong:
        sys.exit("\n".join(wrong))
    for path in (sdist, wheel):
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB", flush=True)
    return wheel


def lacking(sdist: Path) -> Iterator[str]:
    """Files that somebody who builds from the sdist needs."""
    with tarfile.open(sdist) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    yield from (f"{sdist.name} has no {name}" for name in NEEDED if name not in names)


def relative_links(wheel: Path) -> Iterator[str]:
    """Links of the description that would lead nowhere on the page of a package
    index.
    """
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (
            name for name in packed.namelist() if name.endswith(".dist-info/METADATA")
        )
        _, _, description = packed.read(name).decode().partition("\n\n")
    for piece in description.split("](")[1:]:
        target = piece.partition(")")[0]
        if not target.startswith(("https://", "#")):
            yield f"{wheel.name}: the description links to {target}"


def try_out(wheel: Path, extra: str) -> None:
    """Install the wheel with one extra into an empty environment, and use it there."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fedconformal-") as folder:
        venv.create(Path(folder) / "venv", symlinks=True)
        python, work = Path(folder) / "venv" / "bin" / "python", Path(folder) / "work"
        work.mkdir()
        wanted = str(wheel) if extra == "core" else f"{wheel}[{extra}]"
        pip = (
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "--python",
            python,
        )
        run(*pip, "install", "--quiet", "--no-compile", wanted)
        run(*pip, "check")
        run(python, ROOT / "tools" / "smoke.py", extra, cwd=work)
    print(f"{extra}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    wanted = sys.argv[1:] or extras()
    wheel, failed = built(), []
    for extra in wanted:
        try:
            try_out(wheel, extra)
        except subprocess.CalledProcessError as error:
            print(f"{extra}: {error}", file=sys.stderr, flush=True)
            failed.append(extra)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")
    print(f"the wheel works alone and with {', '.join(wanted)}")
