"""``fedconformal ledger`` and ``keys``: a site's own files."""

import json
import os
import sqlite3

import pytest

import fedconformal as fc


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_budgets(run):
    assert run("ledger", "new", "site.db").err == "created site.db\n"
    assert run("ledger", "budget", "site.db", "trial", 1.5).err == "trial: budget 1.5\n"
    assert "nowhere.db" in run("ledger", "show", "nowhere.db", code=2).err
    assert json.loads(run("ledger", "show", "site.db", "--json").out)["accounts"] == [
        {"dataset": "trial", "budget": 1.5, "spent": 0.0, "remaining": 1.5}
    ]
    run("ledger", "budget", "site.db", "trial", 3, code=2)  # raising it takes a reason
    run("ledger", "budget", "site.db", "trial", 3, "--reason", "a second study")
    assert fc.Ledger("site.db").budget("trial") == 3


def test_exact_answers_are_shown_in_words(run):
    run("ledger", "new", "site.db")
    for plan, numbers in (("1" * 64, 2), ("2" * 64, 1)):
        fc.Ledger("site.db").record_exact(
            "trial", plan_digest=plan, site="A", numbers=numbers, data_fingerprint="x", most=5
        )
    shown = run("ledger", "show", "site.db").out
    assert "trial: 2 exact answers given, with 3 exact scores in all\n" in shown
    assert shown.count("+00:00") == 2  # times are shown whole
    assert json.loads(run("ledger", "show", "site.db", "--json").out)["exact"] == [
        {"dataset": "trial", "answers": 2, "numbers": 3}
    ]


def test_a_whole_ledger_is_checked(run, tmp_path):
    run("ledger", "new", "site.db")
    run("ledger", "budget", "site.db", "trial", 1)
    run("ledger", "budget", "site.db", "trial", 2, "--reason", "more")
    assert run("ledger", "check", "site.db").err == "site.db: 2 entries, none changed\n"
    content = (tmp_path / "site.db").read_bytes()
    (tmp_path / "site.db").write_bytes(content.replace(b"first budget", b"other budget"))
    for command in ("check", "show"):
        assert (
            "site.db: corrupt: entry 1 or one before it was changed\n"
            in run("ledger", command, "site.db", code=2).err
        )


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX files")
def test_a_ledger_that_others_can_read_is_one_more_line(run, tmp_path):
    run("ledger", "new", "site.db")
    file = tmp_path / "site.db"
    file.chmod(0o644)
    said = run("ledger", "check", "site.db").err
    assert said.splitlines()[0] == f"fedconformal: {file}: others can read this ledger: run chmod 600 {file}"
    assert len(said.splitlines()) == 2


def test_no_room_or_no_folder_is_one_line(run, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    assert run("ledger", "new", "file/site.db", code=2).err.count("\n") == 1
    connect = sqlite3.connect

    def full(name, **how):
        connection = connect(name, **how)
        connection.execute("PRAGMA max_page_count = 2")
        return connection

    monkeypatch.setattr(sqlite3, "connect", full)
    said = run("ledger", "new", "site.db", code=2).err
    assert "site.db: cannot be used (database or disk is full)" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "site.db").exists()


def test_a_key_is_named_after_its_site_and_never_overwritten(run, tmp_path):
    printed = run("keys", "new", "north")
    assert printed.err == "wrote north.key: keep it at the site; the plan lists the public key\n"
    assert run("keys", "show", "north.key").out == printed.out
    assert "exists already" in run("keys", "new", "north", code=2).err
    (tmp_path / "junk.key").write_text("junk")
    assert "not a private key" in run("keys", "show", "junk.key", code=2).err
