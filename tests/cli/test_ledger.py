"""``fedconformal ledger`` and ``keys``: a site's own files."""

import json

import pytest

import fedconformal as fc


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_budgets(run):
    assert run("ledger", "new", "site.db").err == "made site.db\n"
    assert run("ledger", "budget", "site.db", "trial", 1.5).err == "trial: 1.5 in all\n"
    assert json.loads(run("ledger", "show", "site.db", "--json").out)["accounts"] == [
        {"dataset": "trial", "budget": 1.5, "spent": 0.0, "remaining": 1.5}
    ]
    run("ledger", "budget", "site.db", "trial", 3, code=2)  # raising it takes a reason
    run("ledger", "budget", "site.db", "trial", 3, "--reason", "a second study")
    assert fc.Ledger("site.db").budget("trial") == 3


def test_an_empty_ledger_is_shown(run):
    run("ledger", "new", "site.db")
    assert "dataset" in run("ledger", "show", "site.db").out
    assert "nowhere.db" in run("ledger", "show", "nowhere.db", code=2).err


def test_a_key_is_named_after_its_site_and_never_overwritten(run, tmp_path):
    printed = run("keys", "new", "north")
    assert printed.err == "wrote north.key: keep it at the site; the plan lists the public key\n"
    assert run("keys", "show", "north.key").out == printed.out
    assert "exists already" in run("keys", "new", "north", code=2).err
    (tmp_path / "junk.key").write_text("junk")
    assert "not a private key" in run("keys", "show", "junk.key", code=2).err
