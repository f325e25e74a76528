"""``fedconformal planner``: an address, and a word of warning where others can reach it."""

import pytest

from fedconformal import web


@pytest.fixture
def asked(monkeypatch):
    """What the server is asked for; it announces an address and does not serve."""
    asked = {}

    def serve(*, announce, **options):
        asked.update(options)
        announce("http://localhost:1/")

    monkeypatch.setattr(web, "serve", serve, raising=False)
    return asked


def test_the_address_is_printed(run, asked):
    printed = run("planner", "--port", 0, "--no-browser", "--allow-host", "desk.example")
    assert printed.out == "planner: http://localhost:1/\n"
    assert printed.err == "Ctrl-C stops it.\n"
    assert asked == {"host": "127.0.0.1", "port": 0, "allow_hosts": ["desk.example"], "browse": False}


def test_who_can_reach_it_is_said(run, asked):
    assert "Whoever can reach this machine" in run("planner", "--host", "0.0.0.0").err
    assert "Whoever can reach this machine" not in run("planner", "--host", "localhost").err


def test_a_port_that_is_none(run):
    assert "--port" in run("planner", "--port", 70000, code=2).err
