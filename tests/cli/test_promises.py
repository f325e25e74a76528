"""Promises for sites that differ, from the plan to the certificate, on the terminal."""

import json
import re

import numpy as np
import pytest
from reading import Reader

import fedconformal as fc

SIZES = {"north": 120, "south": 40, "west": 377}
MIXED = (
    "--points",
    ",".join(f"{name}={n}" for name, n in SIZES.items()),
    "--promise",
    "mixture",
)
NEW = ("--sites", 20, "--points", 100, "--promise", "new-site")


def made(run, *arguments):
    return fc.Plan.from_json(run("plan", *arguments, "--json").out)


class TestPlan:
    def test_a_mixture_is_that_of_the_library(self, run):
        shares = {"north": 0.5, "south": 0.25, "west": 0.25}
        text = ",".join(f"{name}={share}" for name, share in shares.items())
        assert made(run, *MIXED[:-1], f"mixture:{text}") == fc.plan(
            n_points=SIZES, promise="mixture", mixture=shares
        )
        assert made(run, *MIXED) == fc.plan(n_points=SIZES, promise="mixture")

    def test_shares_and_what_is_guaranteed_are_shown(self, run):
        out = run("plan", *MIXED[:-1], "mixture:north=1,south=1,west=0").out
        assert "for a known mixture of the sites" in out.splitlines()[0]
        assert (
            "New cases come from north 50.0 %, south 50.0 %, west 0.0 %; a missing site"
            " counts zero" in out
        )
        assert re.search(r"coverage at least\b", out)
        assert "std" not in out
        assert "0.9000" in out

    def test_a_new_site(self, run):
        plan = made(run, *NEW)
        assert (plan.promise, plan.criterion, plan.message.numbers) == (
            "new-site",
            "marginal",
            1,
        )
        out = run("plan", *NEW, "--numbers", 3).out
        assert out.startswith(
            "20 sites, 100 points each; criterion marginal, for a new site"
        )
        assert "3 random cases" in out
        most = run("plan", *NEW, "--criterion", "conditional").out
        assert re.search(r"rank 91 +20 of 20 +0.9000, at 0.9132 of new sites", most)

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (
                (*MIXED[:-1], "mixture:north=x"),
                "--promise north=x: could not convert string to float: 'x'",
            ),
            (
                (*MIXED[:-1], "mixture:north=-1,south=1,west=1"),
                "mixture['north'] must be 0, or between",
            ),
            (
                (*MIXED[:-1], "mixture:north=0,south=0,west=0"),
                "mixture must hold at least one share above 0",
            ),
            (
                (*MIXED[:-1], "mixture:east=1"),
                "mixture must name sites of the plan, got 'east'",
            ),
            (
                (*NEW, "--term", "round=spring"),
                "round must be left out where sites draw cases",
            ),
            (
                (*NEW, "--max-faulty", 1),
                "--max-faulty must be 0 with promise 'new-site', got 1",
            ),
        ],
    )
    def test_bad_input_is_one_line(self, run, arguments, words):
        result = run("plan", *arguments, code=2)
        assert words in result.err
        assert len(result.err.strip().splitlines()) == 1

    def test_open_plans_say_what_sites_send(self, run):
        assert (
            "2 random cases" in run("plan", "--promise", "new-site", "--numbers", 2).out
        )
        shown = run(
            "plan", "--sites", 20, "--promise", "new-site", "--criterion", "conditional"
        ).out
        ranked = " ".join(shown.split())
        assert (
            "the smallest rank above its own 0.9-quantile with probability at least 1/2"
            in ranked
        )


@pytest.mark.parametrize(
    ("arguments", "headline"),
    [
        (
            MIXED,
            "at least 90 % of the new cases of these sites, mixed as the plan says.",
        ),
        (
            NEW,
            (
                "On average over new sites, the truth lies inside the prediction set"
                " for at least 90 %"
            ),
        ),
        ((*NEW, "--criterion", "conditional"), "At 90 % of new sites or more"),
    ],
)
def test_from_plan_to_certificate(run, arguments, headline, tmp_path):
    plan_file, calibration_file = tmp_path / "plan.json", tmp_path / "calibration.json"
    run("plan", *arguments, "-o", plan_file)
    plan = fc.Plan.read(plan_file)
    names = plan.site_names or [f"site {i}" for i in range(plan.n_sites)]
    reports = []
    for name, n in zip(names, plan.n_points, strict=True):
        scores = tmp_path / f"{name}.csv"
        scores.write_text(
            "score\n" + "\n".join(map(str, np.random.default_rng(n).random(n)))
        )
        reports.append(tmp_path / f"{name}.json")
        shown = run("report", plan_file, scores, "--site", name, "-o", reports[-1])
        assert ("drawn at random" in shown.err) == (plan.message.kind == "cases")
    found = run("calibrate", plan_file, *reports, "-o", calibration_file).out
    assert "coverage at least" in found
    told = json.loads(
        run(
            "verify",
            calibration_file,
            *(x for r in reports for x in ("--reports", r)),
            "--json",
        ).out
    )
    assert all(each["holds"] for each in told["findings"])
    run("certificate", calibration_file, "-o", tmp_path / "page.html")
    page = Reader((tmp_path / "page.html").read_text()).text
    assert headline in page
    assert "how the coverage varies" in page
    low = tmp_path / "low.csv"
    low.write_text("score\n" + "\n".join(["2"] * 40))
    assert (
        "It may be that cases at Ulm are harder"
        in run("check", calibration_file, low, "--site", "Ulm").out
    )
