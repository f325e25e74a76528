"""The audit loads nothing of what it checks."""

import subprocess
import sys

ALLOWED = (
    "audit",
    "documents",
    "_extras",
    "_files",
    "_text",
    "_util",
    "_version",
)
PROGRAM = (
    "import sys, fedconformal.audit; print(*(m for m in sys.modules if"
    " m.startswith('fedconformal.')))"
)


def test_only_documents_and_helpers_are_loaded():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    loaded = {module.split(".")[1] for module in done.stdout.split()}
    assert "audit" in loaded
    assert loaded <= set(ALLOWED)
