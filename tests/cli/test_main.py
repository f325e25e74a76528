"""The command as a whole: exit codes, outputs, interruptions, missing extras, a start
that loads little.
"""

import contextlib
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import fedconformal as fc
from fedconformal import _files as _outputs
from fedconformal.cli import main

SOURCE = Path(fc.__file__).parent


def test_version_and_help(run):
    assert run("--version").out.strip() == fc.__version__
    assert "calibrate" in run("--help").out


def test_there_is_one_set_of_commands(run):
    run("groups", "plan", code=2)
    run("nonsense", code=2)


def test_who_leaves_out_an_argument_is_shown_the_way(run):
    assert "Missing argument 'PLAN'. See " in (error := run("report", code=2).err)
    assert error.endswith(" report --help.\n")


def test_without_the_extra_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.delitem(sys.modules, "fedconformal.cli._app", raising=False)
    assert main(["plan"]) == 2
    assert "pip install '.[cli]'" in capsys.readouterr().err


def test_interruptions(monkeypatch, capsys):
    from fedconformal.cli import _plan

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_plan, "show_plan", interrupted)
    assert main(["plan", "--sites", "3", "--points", "30"]) == 130
    assert capsys.readouterr().err == "fedconformal: stopped\n"


@pytest.mark.slow
def test_two_directories_that_share_only_files(desk, run):
    """A site's process in a directory of its own: only plan.json goes in, only
    report.json comes out.
    """
    (desk / "hospital").mkdir()
    (desk / "A.csv").rename(desk / "hospital" / "scores.csv")
    (desk / "hospital" / "plan.json").write_text((desk / "plan.json").read_text())
    order = ["report", "plan.json", "scores.csv", "--site", "A", "-o", "report.json"]
    program = [sys.executable, "-m", "fedconformal", *order]
    subprocess.run(program, cwd=desk / "hospital", check=True, stdin=subprocess.DEVNULL)
    (desk / "hospital" / "report.json").rename(desk / "A.json")
    assert (
        "1 site answered, 2 missing: B, C"
        in run("calibrate", "plan.json", "A.json").out
    )


def test_help_loads_no_numbers():
    """The commands themselves import nothing heavy; with the package it is the
    package's own imports.
    """
    code = f"""
import sys, types
package = types.ModuleType("fedconformal")
package.__path__ = [{str(SOURCE)!r}]
sys.modules["fedconformal"] = package
from fedconformal.cli import main
assert main(["--help"]) == 0
heavy = ("numpy", "scipy", "pydantic", "polars", "cryptography", "sklearn", "starlette")
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_people_who_wait_see_it_and_only_they():
    code = "from fedconformal.cli._show import working\nwith working('waiting'): pass"
    arguments = [sys.executable, "-c", code]
    quiet = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert quiet.stdout + quiet.stderr == ""
    shown, side = pty.openpty()
    watched = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=side)
    os.close(side)
    seen = b""
    with contextlib.suppress(OSError):  # how a closed terminal ends on Linux
        while chunk := os.read(shown, 4096):
            seen += chunk
    os.close(shown)
    assert watched.wait() == 0
    assert b"waiting" in seen


def test_only_regular_files_are_replaced(run, tmp_path, monkeypatch):
    """As root, ``-o /dev/null --force`` once replaced the device by a file."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in run("plan", "-o", "pipe", "--force", code=2).err
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_failure_while_writing_leaves_nothing(desk, run, monkeypatch):
    def broken(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_outputs, "_publish", broken)
    assert (
        "No space left"
        in run("plan", "--sites", 3, "--points", 30, "-o", "new.json", code=2).err
    )
    assert not (desk / "new.json").exists()
    assert not list(desk.glob(".new.json*"))
