"""Build the sdist and the wheel, check both, and try the wheel alone with each extra: ``make dist``.

Environments are made in a temporary folder; ``python tools/check_dist.py core cli`` tries only these.
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(Path(__file__).parent))
EXTRAS = ["core", "cli", "sklearn", "private", "flower", "nvflare", "plots", "web", "experiments"]


def run(*command: str | Path, **options: str | Path) -> None:
    """Run it, or end here."""
    subprocess.run([str(word) for word in command], check=True, **options)  # type: ignore[call-overload]


def built() -> Path:
    """The wheel, after the checks of both files."""
    for old in (ROOT / "dist").glob("fedconformal-*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", ROOT / "dist", ROOT)
    files = sorted((ROOT / "dist").glob("fedconformal-*"))
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    (wheel,) = (path for path in files if path.suffix == ".whl")
    run(sys.executable, "-m", "check_wheel_contents", wheel)
    return wheel


def try_out(wheel: Path, extra: str) -> None:
    """Install the wheel with one extra into an empty environment, and use it there."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        wanted = str(wheel) if extra == "core" else f"{wheel}[{extra}]"
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wanted)
        run(python, "-m", "pip", "check")
        run(python, ROOT / "tools" / "smoke.py", extra, cwd=folder)


if __name__ == "__main__":
    wheel = built()
    for extra in sys.argv[1:] or EXTRAS:
        try_out(wheel, extra)
