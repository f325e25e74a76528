"""Outputs appear whole or not at all."""

import os
import stat

from fedconformal import _files as _outputs


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
    assert "No space left" in run("plan", "--sites", 3, "--points", 30, "-o", "new.json", code=2).err
    assert not (desk / "new.json").exists()
    assert not list(desk.glob(".new.json*"))
