"""Check the types of the answer page's scripts with TypeScript, and their format;
--write formats them.

Both tools come from npm and are kept in build/scripts. Without npm the check is skipped
with its reason.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / "build" / "scripts"
PACKAGES = ("typescript@5.9.3", "prettier@3.6.2")
SCRIPTS = sorted(map(str, (ROOT / "src/fedconformal/pages/assets/answer").glob("*.js")))
TYPES = [
    "--noEmit",
    "--allowJs",
    "--checkJs",
    "--strict",
    "--noImplicitAny",
    "false",
    "--noUnusedLocals",
]
TARGET = [
    "--noUnusedParameters",
    "--target",
    "ES2022",
    "--module",
    "ES2022",
    "--lib",
    "ES2022,DOM,DOM.Iterable",
]


def missing() -> str | None:
    """Install the tools on first use; return the reason why they are not there, if they
    are not.
    """
    stamp = TOOLS / "installed"
    if stamp.exists() and stamp.read_text() == " ".join(PACKAGES):
        return None
    if shutil.which("npm") is None:
        return "npm is not installed"
    command = [
        "npm",
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--prefix",
        str(TOOLS),
        *PACKAGES,
    ]
    TOOLS.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    except subprocess.TimeoutExpired:
        return "npm took longer than two minutes"
    if done.returncode:
        return "npm could not install " + " and ".join(PACKAGES)
    stamp.write_text(" ".join(PACKAGES))
    return None


def main() -> int:
    """Run both tools; return the exit code."""
    if (reason := missing()) is not None:
        print(f"scripts of the answer page not checked: {reason}", file=sys.stderr)
        return 0
    tools = TOOLS / "node_modules" / ".bin"
    types = subprocess.run([str(tools / "tsc"), *TYPES, *TARGET, *SCRIPTS], check=False)
    action = "--write" if "--write" in sys.argv else "--check"
    form = [
        str(tools / "prettier"),
        "--log-level",
        "warn",
        "--print-width",
        "130",
        action,
        *SCRIPTS,
    ]
    return types.returncode or subprocess.run(form, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
