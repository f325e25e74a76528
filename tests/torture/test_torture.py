"""The reliability harness: a short run of every section, and broken code that it must
find.
"""

import json
import os
import stat
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import fedconformal as fc
from fedconformal._tables import _csv
from fedconformal.audit import _ranks
from fedconformal.cli import main
from fedconformal.pages import _worker
from fedconformal.privacy import _ledger_file, _mechanisms
from fedconformal.privacy._ledger_file import LedgerFile
from fedconformal.protocol import _masking, _report, _sum_record
from fedconformal.protocol._sum_record import SumRecord
from torture import __main__ as command
from torture import byzantine, federations, ledgers, records
from torture._run import Section, run_section
from torture.sections import SECTIONS

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="kills and traces processes the Linux way"
)
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", SECTIONS)
def test_no_violation(name):
    section = SECTIONS[name]
    assert run_section(section, range(section.quick)).violations == []


def finds(name, runs=300, step=1):
    """Return whether a seed violates the invariant; the first one that does ends the
    search.
    """
    seeds = range(0, runs * step, step)
    return any(run_section(SECTIONS[name], [seed]).violations for seed in seeds)


@pytest.mark.parametrize("level", ["OFF", "FULL"])
def test_a_ledger_that_does_not_wait_for_the_disk_is_found(monkeypatch, level):
    """FULL does not wait for the directory, so that a deleted journal can come back.

    The seal, which is written next, waits for the directory too; without that it is
    found.
    """
    run, fsync = LedgerFile.run, os.fsync
    monkeypatch.setattr(
        os,
        "fsync",
        lambda file: None if stat.S_ISDIR(os.fstat(file).st_mode) else fsync(file),
    )

    def slack(file, statement, *values):
        return run(file, statement.replace("= EXTRA", f"= {level}"), *values)

    monkeypatch.setattr(LedgerFile, "run", slack)
    ledgers.trace_answer.cache_clear()
    try:
        assert finds("power", 600)
    finally:
        ledgers.trace_answer.cache_clear()


def test_a_ledger_that_draws_again_is_found(monkeypatch):
    monkeypatch.setattr(
        fc.Ledger, "answer", lambda ledger, dataset, *, sample, **_: sample()
    )
    ledgers.trace_answer.cache_clear()
    try:
        for name, runs in {
            "races": 2,
            "kills": 60,
            "full-disks": 10,
            "federations": 100,
        }.items():
            assert finds(name, runs), name
    finally:
        ledgers.trace_answer.cache_clear()


def test_a_ledger_without_seals_is_found(monkeypatch):
    monkeypatch.setattr(_ledger_file, "_digest", lambda *_: 64 * "0")
    ledgers.undamaged.cache_clear()
    try:
        assert finds("damage", 100)
    finally:
        ledgers.undamaged.cache_clear()


@pytest.mark.parametrize(
    "broken", ["_check_mixture", "_check_new_sites", "check_each", "_check_cases"]
)
def test_an_audit_that_accepts_too_much_is_found(monkeypatch, broken):
    for audit in (_ranks.RanksAudit, _ranks.CasesAudit):
        accept = {
            key: (
                (lambda _: (True, ""))
                if broken in {check.__name__, *check.__code__.co_names}
                else check
            )
            for key, check in audit.checks.items()
        }
        monkeypatch.setattr(audit, "checks", accept)
    assert finds("promises", 400)


def test_readers_and_audits_that_fail_are_found(monkeypatch):
    monkeypatch.setattr(fc.audit, "verify", lambda *_: [])
    assert finds("calibrations", 10)
    monkeypatch.setattr(fc.Plan, "from_json", lambda text: {}[text])
    assert finds("documents", 1)


def test_a_site_without_limits_is_found(monkeypatch):
    monkeypatch.setattr(fc.SitePolicy, "check_numbers", lambda *_: None)
    assert finds("federations")


def test_a_calibration_from_other_votes_is_found(monkeypatch):
    monkeypatch.setattr(
        byzantine, "count_threshold", lambda votes, needed: max(votes)[0]
    )
    assert finds("byzantine", 20)


def test_a_record_that_forgets_masked_answers_is_found(monkeypatch):
    monkeypatch.setattr(SumRecord, "answer", lambda record, *given, **_: given[-1]())
    assert finds("masks", 3)


@pytest.mark.nightly
def test_a_record_that_allows_any_second_sum_is_found(monkeypatch):
    monkeypatch.setattr(_sum_record, "_find_conflict", lambda *_: None)
    assert finds("masks", 40)


@pytest.mark.parametrize("bound", ["received", "question"])
def test_masks_that_are_bound_to_half_of_what_a_site_was_sent_are_found(
    monkeypatch, bound
):
    def salt(question, received, dataset):
        if bound == "question":
            return _masking.mask_salt(question, None, dataset)
        return _masking.mask_salt(f"sha256:{64 * 'a'}", received, dataset)

    monkeypatch.setattr(_report, "mask_salt", salt)
    assert finds("masks", 40)


@pytest.mark.nightly
def test_a_policy_that_sums_with_anybody_is_found(monkeypatch):
    monkeypatch.setattr(fc.SitePolicy, "check_sum", lambda *_: None)
    assert finds("masks", 100)


def test_a_planner_that_answers_in_the_process_of_the_server_is_found(monkeypatch):
    async def ask(workers, name, body, options):
        return _worker.answer(name, body, options)

    monkeypatch.setattr(_worker.Workers, "ask", ask)
    assert finds("planner", 3)


def test_a_reader_in_which_a_record_changes_others_is_found(monkeypatch):
    monkeypatch.setattr(
        _csv, "_private_lines", lambda name, data: data
    )  # other line ends are line ends, too
    assert finds("records", 30)


def test_a_sixth_of_the_noise_is_found(monkeypatch):
    measurement = _mechanisms._measurement
    monkeypatch.setattr(
        _mechanisms,
        "_measurement",
        lambda scale, epsilon, **options: measurement(
            scale / 6, 6 * epsilon, **options
        ),
    )
    assert finds("privacy", 1)


def test_one_record_through_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(records.PLANS["absolute"].to_json())
    options = [
        "--site",
        "A",
        "--dataset",
        "D",
        "--column",
        "score",
        "--yes",
        "--force",
        "-o",
        "r.json",
    ]
    for i, record in enumerate([b"0.5", b"", b'"', b"1,2,3", b"\xff\x00\r", b"nan"]):
        Path("t.csv").write_bytes(b"score,id\n" + b"0.25,1\n" * 299 + record + b"\n")
        fc.Ledger.create(f"{i}.db").set_budget("D", 4)
        assert (
            main(["report", "plan.json", "t.csv", "--ledger", f"{i}.db", *options]) == 0
        )
        assert fc.Report.read("r.json").n == 300


def test_an_audit_that_believes_is_found(monkeypatch):
    monkeypatch.setattr(_ranks, "check_mean", lambda *_: (True, 1.0))
    assert finds("claims", 10)


def test_an_audit_that_contradicts_what_it_cannot_compute_is_found(monkeypatch):
    monkeypatch.setattr(_ranks, "bound_coverage", lambda *_: (False, ""))
    assert finds("claims", 10, step=10)


def test_a_certificate_for_any_claim_is_found(monkeypatch):
    monkeypatch.setattr(fc.pages, "certificate", lambda _: "")
    assert finds("claims", 10)


def test_a_reader_of_settings_that_fails_is_found(monkeypatch):
    monkeypatch.setattr(fc.SigningKey, "from_pem", lambda text: text.decode("ascii"))
    monkeypatch.setattr(fc.SitePolicy, "from_toml", lambda text: {}[text])
    assert len(run_section(SECTIONS["settings"], range(2)).violations) == 2


def test_the_same_seed_is_the_same_federation():
    def released(seed, folder):
        folder.mkdir()
        world = federations.World(seed, folder)
        with world.installed():
            world.run()
        return [dict(hospital.released) for hospital in world.hospitals]

    with TemporaryDirectory() as folder:
        for seed in range(6):
            first, again = (
                released(seed, Path(folder, f"{seed} {run}")) for run in "ab"
            )
            assert first == again


def never_three(seed):
    assert seed != 3, "three"
    return 1


def test_a_violation_is_one_line_to_run_again(monkeypatch, capsys):
    monkeypatch.setitem(
        command.SECTIONS,
        "toy",
        Section("toy", "toys", "never three", never_three, 10, 5),
    )
    assert command.main(["toy", "--jobs", "2"]) == 1
    printed = capsys.readouterr().out
    assert "10 toys, 1 violations" in printed
    assert (
        "AssertionError: three\n    python -m torture toy --seed 3 --runs 1" in printed
    )
    assert command.main(["toy", "--runs", "3"]) == 0


def test_the_table_of_the_documentation_is_that_of_the_counts():
    counts = json.loads((DOCS / "torture.json").read_text())
    assert list(counts) == list(SECTIONS)
    assert {row["violations"] for row in counts.values()} == {0}
    assert command.table(counts) in (DOCS / "security.md").read_text()
