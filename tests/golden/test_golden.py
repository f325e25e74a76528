"""The package still answers as it was accepted: equal in value, or better where a
search may improve.
"""

import json
import math
from pathlib import Path

import pytest
from scenarios import SECTIONS, answers

ACCEPTED = json.loads((Path(__file__).parent / "answers.json").read_text())
COVERAGE = 1e-4  # a plan may cost this much more coverage
SPREAD = 1.02  # or be this much further from the level under the stable criterion


@pytest.fixture(scope="module")
def current():
    cache = {}

    def of(section):
        if section not in cache:
            cache[section] = json.loads(json.dumps(answers(section)))
        return cache[section]

    return of


def cost(claim, answer):
    """Return what the claim costs under its criterion."""
    if answer["criterion"] in (None, "stable"):
        return math.hypot(claim["std"], claim["mean"] - answer["level"])
    return claim["mean"]


def is_valid(claim, answer):
    """Return whether a distribution satisfies its criterion."""
    if answer["criterion"] == "conditional":
        return claim["sf"] >= 1 - answer["delta"] - 1e-9
    return claim["mean"] >= answer["level"] - 1e-9


@pytest.mark.parametrize("section", SECTIONS)
def test_every_scenario_is_still_there(section, current):
    assert list(current(section)) == list(ACCEPTED[section])


@pytest.mark.parametrize("name", ACCEPTED["single"])
def test_plans_are_valid_and_never_dearer(name, current):
    old, new = ACCEPTED["single"][name], current("single")[name]
    assert new.get("refused") == old.get("refused")
    if "refused" in old or "claim" not in old:
        return
    assert new["feasible"] or not old["feasible"]
    if "mean" in old["claim"]:
        claim = new["claim"]
        if "each-site" not in name:
            assert is_valid(claim, new)
        limit = cost(old["claim"], old)
        limit = (
            limit * SPREAD if old["criterion"] in (None, "stable") else limit + COVERAGE
        )
        assert cost(claim, new) <= limit
    else:
        assert new["claim"] == pytest.approx(old["claim"], rel=1e-9)


@pytest.mark.parametrize("name", ACCEPTED["single"])
def test_thresholds_follow_from_ranks_and_votes(name, current):
    old, new = ACCEPTED["single"][name], current("single")[name]
    for calibration in new.get("calibrations", []):
        assert calibration.get("verified", True)
    if "recomputed" in new:
        assert new["calibrations"][0]["thresholds"] == {"": new["recomputed"]}
    if old.get("asked") == new.get("asked"):
        assert new.get("calibrations") == old.get("calibrations")


@pytest.mark.parametrize("section", ["grouped", "curves", "edited", "exit codes"])
def test_the_other_answers_are_the_same(section, current):
    assert current(section) == ACCEPTED[section]


@pytest.mark.parametrize("name", ACCEPTED["private"])
def test_private_guarantees_are_the_same(name, current):
    assert current("private")[name] == pytest.approx(
        ACCEPTED["private"][name], rel=1e-9
    )
