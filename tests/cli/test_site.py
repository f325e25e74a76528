"""``fedconformal ledger``, ``keys`` and ``policy``: a site's own files, and
signatures.
"""

import dataclasses
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
            "trial",
            plan_digest=plan,
            site="A",
            numbers=numbers,
            data_fingerprint="x",
            allow=lambda *_: None,
        )
    shown = run("ledger", "show", "site.db").out
    assert "trial: 2 exact answers given, with 3 exact scores in all\n" in shown
    assert shown.count("+00:00") == 2  # times are shown whole
    assert json.loads(run("ledger", "show", "site.db", "--json").out)["exact"] == [
        {"dataset": "trial", "answers": 2, "numbers": 3}
    ]


def test_a_restored_backup_is_refused_until_its_loss_is_accepted(run, tmp_path):
    run("ledger", "new", "site.db")
    run("ledger", "budget", "site.db", "trial", 1)
    older = (tmp_path / "site.db").read_bytes()
    run("ledger", "budget", "site.db", "trial", 2, "--reason", "more")
    run(
        "ledger",
        "check",
        "site.db",
        "--seal",
        f"2:{fc.Ledger('site.db').entries()[1].seal}",
    )
    (tmp_path / "site.db").write_bytes(older)
    assert (
        "an older copy: it ends at entry 1, and its seal is of entry 2"
        in run("ledger", "show", "site.db", code=2).err
    )
    assert (
        "every budget counts as spent"
        in run("ledger", "reseal", "site.db", "--reason", "a new disk").err
    )
    assert fc.Ledger("site.db").remaining("trial") == 0
    assert (
        "does not hold the entry 2:00"
        in run("ledger", "check", "site.db", "--seal", f"2:{'0' * 64}", code=2).err
    )


def test_a_whole_ledger_is_checked(run, tmp_path):
    run("ledger", "new", "site.db")
    run("ledger", "budget", "site.db", "trial", 1)
    run("ledger", "budget", "site.db", "trial", 2, "--reason", "more")
    assert run("ledger", "check", "site.db").err == "site.db: 2 entries, none changed\n"
    content = (tmp_path / "site.db").read_bytes()
    (tmp_path / "site.db").write_bytes(
        content.replace(b"first budget", b"other budget")
    )
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
    assert (
        said.splitlines()[0]
        == f"fedconformal: {file}: others can read this ledger: run chmod 600 {file}"
    )
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
    assert (
        printed.err
        == "wrote north.key: keep it at the site; the plan lists the public key\n"
    )
    assert run("keys", "show", "north.key").out == printed.out
    assert "exists already" in run("keys", "new", "north", code=2).err
    (tmp_path / "junk.key").write_text("junk")
    assert "not a private key" in run("keys", "show", "junk.key", code=2).err


def test_a_new_policy_says_the_defaults(desk, run):
    assert "wrote site.toml" in run("policy", "new").err
    policy = fc.SitePolicy.read("site.toml")
    assert dataclasses.replace(policy, secret=None) == fc.SitePolicy()
    assert len(policy.secret) == 32
    assert policy.secret not in repr(policy) + run("policy", "show", "site.toml").out
    assert (desk / "site.toml").stat().st_mode & 0o077 == 0
    text = (desk / "site.toml").read_text()
    every_line = [
        line[2:]
        for line in text.splitlines()
        if line.startswith("# ") and " = " in line
    ]
    (desk / "all.toml").write_text(
        "\n".join(every_line).replace('"ed25519:..."', f'"ed25519:{"ab" * 32}"')
    )
    said = fc.SitePolicy.read("all.toml")
    assert (said.max_numbers, said.private_only, said.scores) == (
        10,
        True,
        ("absolute",),
    )
    for name in ("max_answers", "min_group", "curves", "round_down_to"):
        assert getattr(said, name) == getattr(fc.SitePolicy(), name)


def test_what_holds_is_shown(desk, run):
    (desk / "site.toml").write_text('max_numbers = 3\nscores = ["lac", "aps"]\n')
    held = json.loads(run("policy", "show", "site.toml", "--json").out)
    assert (held["max_numbers"], held["scores"], held["max_answers"]) == (
        3,
        ["lac", "aps"],
        20,
    )
    assert "lac, aps" in run("policy", "show", "site.toml").out
    (desk / "site.toml").write_text("max = 3")
    assert (
        "site.toml: not a policy: 'max' is none of"
        in run("policy", "show", "site.toml", code=2).err
    )


def test_a_refusal_names_the_line_that_would_allow_it(desk, run):
    (desk / "site.toml").write_text("max_numbers = 0")
    order = [
        "report",
        "plan.json",
        "A.csv",
        "--site",
        "A",
        "-o",
        "A.json",
        "--policy",
        "site.toml",
    ]
    assert "max_numbers = 1 would allow it" in run(*order, code=2).err
    (desk / "site.toml").write_text("max_numbers = 1")
    run(*order)


def test_a_report_without_the_listed_key_is_not_written(desk, run):
    """The coordinator could not accept it."""
    for name in ("a", "b"):
        run("keys", "new", "-o", f"{name}.pem")
    keys = {name: run("keys", "show", f"{name}.pem").out.strip() for name in "ab"}
    listed = ["--key", f"A={keys['a']}", "--key", f"B={keys['b']}"]
    run("plan", "--points", "A=40,B=60", *listed, "-o", "p.json")
    order = ["report", "p.json", "A.csv", "--site", "A", "-o", "r.json"]
    assert "--sign-with must be the private one" in run(*order, code=2).err
    assert (
        "--sign-with must be the one that"
        in run(*order, "--sign-with", "b.pem", code=2).err
    )
    assert not (desk / "r.json").exists()
    run(*order, "--sign-with", "a.pem")
    assert fc.Report.read("r.json").signature is not None


def test_from_a_signed_plan_to_a_signed_calibration(desk, run):
    (desk / "model.bin").write_bytes(b"weights")
    (desk / "other.bin").write_bytes(b"other")
    run("keys", "new", "-o", "c.key")
    coordinator = run("keys", "show", "c.key").out.strip()
    wishes = [
        "--points",
        "A=40,B=60,C=50",
        "--term",
        "model=model.bin",
        "--term",
        "round=may",
        "--term",
    ]
    run(
        "plan",
        *wishes,
        "expires=9999-01-01T00:00:00Z",
        "--sign",
        "c.key",
        "-o",
        "p.json",
    )
    plan = fc.Plan.read("p.json")
    assert (plan.terms.round, plan.signer, plan.is_signed) == ("may", coordinator, True)
    (desk / "site.toml").write_text(f'coordinator = "{coordinator}"\n')
    sent = []
    for site in "ABC":
        order = [
            "report",
            "p.json",
            f"{site}.csv",
            "--site",
            site,
            "--policy",
            "site.toml",
        ]
        if site == "A":
            assert "another model" in run(*order, "--model", "other.bin", code=2).err
        run(*order, "--model", "model.bin", "-o", f"{site}.json")
        sent.append(f"{site}.json")
    order = ["report", "plan.json", "A.csv", "--site", "A", "--policy", "site.toml"]
    assert "not signed by the coordinator" in run(*order, code=2).err
    run("calibrate", "p.json", *sent, "--sign", "c.key", "-o", "c.json")
    calibration = fc.Calibration.read("c.json")
    assert calibration.is_signed
    assert calibration.signer == coordinator


def test_an_expired_plan(desk, run):
    run(
        "plan",
        "--points",
        "A=40,B=60",
        "--term",
        "expires=2001-01-01T00:00:00Z",
        "-o",
        "p.json",
    )
    assert (
        "expired at 2001" in run("report", "p.json", "A.csv", "--site", "A", code=2).err
    )
    assert (
        "must be a time in UTC"
        in run("plan", "--term", "expires=2001-99-01T00:00:00Z", code=2).err
    )
