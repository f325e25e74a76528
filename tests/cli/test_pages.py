"""``fedconformal certificate`` and ``planner``: a page, or one line."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

import fedconformal as fc
from fedconformal import pages
from fedconformal.audit import Finding
from fedconformal.pages import _certificate, certificate


@pytest.fixture
def calibration(desk, reported, run):
    run("calibrate", "plan.json", *reported(), "-o", "calibration.json")
    return fc.Calibration.read("calibration.json")


def test_it_writes_the_page(desk, run, calibration):
    order = [
        "certificate",
        "calibration.json",
        "-o",
        "page.html",
        "--fact",
        "date=2026-11-18",
    ]
    page = certificate(calibration, facts={"date": "2026-11-18"})
    warning, written = run(*order).err.splitlines()
    assert warning.startswith("Not stated: name, version, purpose, ")
    assert written == "wrote page.html"
    assert (desk / "page.html").read_text(encoding="utf-8") == page
    assert (
        run(*order, code=2).err
        == "fedconformal: page.html: exists already; --force overwrites it\n"
    )
    assert (desk / "page.html").read_text(encoding="utf-8") == page


def test_reports_are_recomputed_first(desk, run, reported):
    files = reported()
    run("calibrate", "plan.json", *files, "-o", "calibration.json")
    options = [each for file in files for each in ("--reports", file)]
    run("certificate", "calibration.json", *options)
    page = (desk / "certificate.html").read_text(encoding="utf-8")
    assert "which recomputed the thresholds from the reports." in page
    error = run("certificate", "calibration.json", "--force", *options[:-2], code=1).err
    assert "its claim does not hold" in error
    (desk / "none.json").write_text("{}")
    refused = ["--force", "--reports", "none.json"]
    assert "none.json" in run("certificate", "calibration.json", *refused, code=2).err


def test_it_shows_the_sizes_of_sets_of_a_file(desk, run, calibration):
    (desk / "new.csv").write_text("prediction\n" + "\n".join(map(str, range(40))))
    assert (
        "--sets" not in run("certificate", "calibration.json", "--sets", "new.csv").err
    )
    page = (desk / "certificate.html").read_text(encoding="utf-8")
    assert "The intervals of 40 cases, computed from their predictions" in page
    run("certificate", "calibration.json", "--sets", "none.csv", "--force", code=2)


def test_the_page_has_the_day_it_was_made(desk, run, calibration):
    days = {datetime.now(UTC).date().isoformat()}
    run("certificate", "calibration.json")
    days.add(datetime.now(UTC).date().isoformat())
    assert any(
        f"<td>{day}</td>" in (desk / "certificate.html").read_text(encoding="utf-8")
        for day in days
    )


@pytest.mark.parametrize("content", ["", "{}", "[]", "not JSON"])
def test_a_bad_file_is_one_line(desk, run, content):
    (desk / "calibration.json").write_text(content)
    assert run("certificate", "calibration.json", code=2).err.startswith(
        "fedconformal: calibration.json: "
    )
    assert not (desk / "certificate.html").exists()


def test_a_forged_file_is_one_line(desk, run, calibration):
    content = json.loads(calibration.to_json())
    content["parts"][0]["design"]["levels"][0]["votes"] = 1
    del content["digest"]
    forged = fc.Calibration.model_validate_json(json.dumps(content))
    (desk / "calibration.json").write_text(forged.to_json())
    for options in ((), ("--allow-unverified",)):
        error = run("certificate", "calibration.json", *options, code=1).err
        assert error.startswith(
            "fedconformal: this calibration gets no certificate, its claim does not"
            " hold"
        )
        assert len(error.splitlines()) == 1
        assert not (desk / "certificate.html").exists()


def test_a_claim_that_cannot_be_verified_gets_a_page_on_request_alone(
    desk, run, calibration, monkeypatch
):
    monkeypatch.setattr(
        _certificate, "verify", lambda *_: [Finding("it covers", "too large", None)]
    )
    error = run("certificate", "calibration.json", code=1).err
    reason = "a claim cannot be verified: it covers: too large"
    assert error == f"fedconformal: this calibration gets no certificate, {reason}\n"
    assert not (desk / "certificate.html").exists()
    run("certificate", "calibration.json", "--allow-unverified")
    assert "<h1>NOT VERIFIED: " in (desk / "certificate.html").read_text(
        encoding="utf-8"
    )


@pytest.fixture
def asked(monkeypatch):
    """What the server is asked for; it announces an address and does not serve."""
    asked = {}

    def serve(*, announce, **options):
        asked.update(options)
        announce("http://localhost:1/")

    monkeypatch.setattr(pages, "serve", serve, raising=False)
    return asked


def test_the_address_is_printed(run, asked):
    printed = run(
        "planner", "stay", "--port", 0, "--no-browser", "--allow-host", "desk.example"
    )
    assert printed.out == "planner: http://localhost:1/\n"
    assert printed.err == "Ctrl-C stops it.\n"
    assert asked == {
        "host": "127.0.0.1",
        "port": 0,
        "allow_hosts": ["desk.example"],
        "folder": Path("stay"),
        "browse": False,
    }


def test_who_can_reach_it_is_said(run, asked):
    assert "Whoever can reach this machine" in run("planner", "--host", "0.0.0.0").err
    assert (
        "Whoever can reach this machine"
        not in run("planner", "--host", "localhost").err
    )
    assert asked["folder"] == Path()


def test_a_port_that_is_none(run):
    assert "--port" in run("planner", "--port", 70000, code=2).err
