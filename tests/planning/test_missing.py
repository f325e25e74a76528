"""What silence does: a plan that bears some silent sites has a finite threshold, whichever they are."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.laws import Federation
from fedconformal.planning import CRITERIA, PROMISES, Exact, Goal, Private, Sites
from fedconformal.planning._candidates import given_ranks
from fedconformal.planning._missing import _suffices, _tolerates_any, left_over, tolerates_missing
from planning.plans import quiet

POPULATION = PROMISES["population"]()
CASES = [("marginal", 0), ("stable", 0), ("conditional", 0), ("stable", 1), ("conditional", 1)]


def drawn(rng, *, most_sites=5, largest=60):
    """Sizes of a federation: some equal, some far apart."""
    m = int(rng.integers(2, most_sites + 1))
    few = rng.integers(3, largest + 1, size=int(rng.integers(1, 4)))
    return np.sort(rng.choice(few, size=m))


def chosen(sizes, goal, sending):
    return POPULATION.choose(Sites(*np.unique(sizes, return_counts=True)), goal, sending, None)


def left_finite(design, n_silent):
    """Whether the design solved anew is finite for every choice of silent sites, one by one."""
    sites = [replace(block, count=1) for block in design.asked for _ in range(block.count)]
    if n_silent >= len(sites):
        return False
    return all(design.for_answers(there).is_finite for there in combinations(sites, len(sites) - n_silent))


@pytest.mark.slow
@pytest.mark.parametrize(("criterion", "faulty"), CASES)
@pytest.mark.parametrize("numbers", [1, 2])
def test_a_design_knows_what_it_bears(criterion, faulty, numbers):
    """Exactly for one silent site; for several it never says too much."""
    rng, bears = np.random.default_rng(1), set()
    for _ in range(7):
        sizes = drawn(rng, largest=60 if numbers == 1 else 40)
        f = faulty if 2 * faulty < sizes.size else 0
        level = Fraction(str(rng.choice([0.5, 0.8, 0.9])))
        design = chosen(sizes, Goal(level, CRITERIA[criterion](), max_faulty=f), Exact(numbers))
        expected = design.is_finite and left_finite(design, 1)
        bears.add(expected)
        assert design.survives(1) == expected, (sizes, level, design.blocks)
        assert not design.survives(2) or left_finite(design, 2), (sizes, level, design.blocks)
    assert bears == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize(("criterion", "faulty"), CASES)
@pytest.mark.parametrize(("numbers", "missing"), [(1, 1), (1, 2), (3, 1)])
def test_as_many_may_stay_silent_as_were_asked_for(criterion, faulty, numbers, missing):
    """Or the plan is infeasible, and then the largest scores of the sites that are left would not do."""
    rng, feasible = np.random.default_rng(2), 0
    for _ in range(5):
        sizes = drawn(rng, most_sites=5 if numbers == 1 else 4, largest=40)
        f = faulty if 2 * faulty < sizes.size else 0
        level = Fraction(str(rng.choice([0.5, 0.8, 0.9])))
        goal = Goal(level, CRITERIA[criterion](), max_faulty=f, max_missing=missing)
        design = chosen(sizes, goal, Exact(numbers))
        feasible += design.is_finite
        if design.is_finite:
            assert left_finite(design, missing), (sizes, level, design.blocks, design.server_rank)
            continue
        fewest = sizes[: max(0, sizes.size - missing)]  # the smallest sites, if the largest are silent
        if fewest.size > 2 * f:
            assert not chosen(fewest, replace(goal, max_missing=0), Exact(numbers)).is_finite, (sizes, level)
    assert feasible


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "level", "criterion", "numbers"),
    [
        ([5, 20, 41, 49, 56], "4/5", "conditional", 1),
        ([9, 21, 31, 34], "4/5", "stable", 2),
        ([5, 9, 11, 50, 52, 58], "9/10", "stable", 1),
    ],
)
def test_lies_of_heavy_sites_and_of_those_that_send_infinity_are_borne_too(sizes, level, criterion, numbers):
    """What a faulty site can do depends on its weight, and on what it would have sent."""
    goal = Goal(Fraction(level), CRITERIA[criterion](), max_faulty=1, max_missing=1)
    design = chosen(sizes, goal, Exact(numbers))
    assert design.is_finite
    assert design.survives(1)
    assert left_finite(design, 1)


@pytest.mark.parametrize("sizes", [[20, 200], [4, 30, 300], [12, 12, 400], [9, 9, 9, 90]])
def test_a_site_that_could_stand_in_for_a_silent_one_is_asked(sizes):
    """Small sites can never change the threshold while the largest answers; they can if it does not."""
    plan = quiet(n_points=sizes, confidence_level=0.8, max_missing=1)
    assert plan.feasible
    assert plan.part.n_asked > 1
    assert left_finite(plan.designs[0], 1)
    assert plan.designs[0].survives()
    assert not any("silent site" in note for note in plan.notes)


def test_nobody_else_may_be_silent_than_was_asked_for():
    """Without max_missing a plan may rest on all sites; its notes say so."""
    plan = fc.plan(n_sites=10, n_points=200, criterion="marginal")
    assert not plan.designs[0].survives()
    (note,) = plan.notes
    assert note == (
        "At the level 0.9, one silent site could make the threshold infinite; max_missing=1 "
        "(--max-missing 1) plans for that."
    )
    bearing = fc.plan(n_sites=10, n_points=200, criterion="marginal", max_missing=1)
    assert bearing.notes == ()
    assert bearing.law.mean() > plan.law.mean() >= 0.9
    assert bearing.part.max_missing == 1
    assert fc.Plan.from_json(bearing.to_json()) == bearing


def test_ranks_that_are_given_bear_it_or_the_plan_is_infeasible():
    """The rank of the marginal choice for ten sites of 200 points, 174, rests on all of them."""
    sites = Sites(np.array([200]), np.array([10]))
    for share, missing, feasible in (("0.865", 0, True), ("0.865", 1, False), ("0.9", 1, True)):
        goal = Goal(Fraction(9, 10), CRITERIA["marginal"](), max_missing=missing)
        design = POPULATION.choose(sites, goal, Exact(), Fraction(share))
        assert design.is_finite == feasible
        assert not (feasible and missing) or left_finite(design, missing)


def test_what_was_to_be_borne_is_said_where_nothing_bears_it():
    options = {"n_sites": 3, "n_points": 200, "on_infeasible": "raise"}
    for wish, words in (
        ({"max_missing": 3}, "3 sites of 200 points, any 3 of which may be silent: the threshold"),
        ({"max_missing": 2, "max_faulty": 1}, "any 2 of which may be silent and 1 may be faulty: the"),
        ({"max_faulty": 1, "confidence_level": 0.9999}, "3 sites of 200 points, of which 1 may be faulty:"),
    ):
        with pytest.raises(ValueError, match=words):
            fc.plan(**options, **wish)


@pytest.mark.slow
def test_notes_agree_with_what_silence_does():
    """Through documents: a note if and only if one silent site leaves an infinite threshold."""
    rng, said = np.random.default_rng(4), set()
    for _ in range(12):
        sizes = {f"{j}": int(n) for j, n in enumerate(drawn(rng))}
        criterion = str(rng.choice(["marginal", "stable", "conditional"]))
        plan = quiet(n_points=sizes, confidence_level=0.8, criterion=criterion)
        if not plan.feasible:
            continue
        broken = not left_finite(plan.designs[0], 1)
        said.add(broken)
        assert any("silent site" in note for note in plan.notes) == broken, (sizes, criterion, plan.notes)
    assert said == {True, False}


def test_each_group_and_level_has_its_own_note():
    sizes = {"young": [200] * 10, "old": [9] * 3}
    plan = fc.plan(groups=sizes, confidence_level=[0.8, 0.9], criterion="marginal", on_infeasible="ignore")
    expected = [
        f"Group {label!r}: At the level {level}, one silent site"
        for label in ("old", "young")
        for level, design in zip((0.8, 0.9), plan[label].designs, strict=True)
        if design.is_finite and not left_finite(design, 1)
    ]
    notes = [note for note in plan.notes if "silent site" in note]
    assert expected
    assert len(notes) == len(expected)
    assert all(note.startswith(start) for note, start in zip(notes, expected, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("f", [0, 1])
@pytest.mark.parametrize(("sizes", "missing"), [([300, 300, 400], 1), ([150] * 5, 1), ([200, 200], 1)])
def test_private_plans_bear_it_too(sizes, missing, f):
    if len(sizes) - missing <= 2 * f:
        f = 0
    release = fc.Privacy(epsilon=1.0, bins=fc.Bins.uniform(0, 1, 40)).release()
    for max_missing in (None, missing):
        goal = Goal(Fraction(4, 5), CRITERIA["marginal"](), max_faulty=f, max_missing=max_missing)
        design = chosen(sizes, goal, Private(release))
        assert design.is_finite
        assert design.survives(missing) == left_finite(design, missing)
        assert max_missing is None or design.survives(missing)


def test_a_private_plan_that_rests_on_all_sites_says_so():
    privacy = fc.Privacy(epsilon=0.5, bins=fc.Bins.uniform(0, 1, 40))
    options = {"n_sites": 3, "n_points": 100, "privacy": privacy, "criterion": "marginal"}
    plan = quiet(**options)
    design = plan.designs[0]
    assert plan.feasible
    assert design.survives() == left_finite(design, 1)
    assert any("silent site" in note for note in plan.notes) == (not design.survives())


@pytest.mark.parametrize(
    ("counts", "silent"), [([3], 1), ([1, 2], 2), ([2, 1, 3], 2), ([1, 1], 2), ([1, 1], 0)]
)
def test_every_choice_of_silent_sites_is_listed_once(counts, silent):
    sites = [b for b, count in enumerate(counts) for _ in range(count)]
    kept = {
        tuple(there.count(b) for b in range(len(counts)))
        for there in combinations(sites, len(sites) - silent)
    }
    found = [tuple(rest.tolist()) for rest in left_over(np.array(counts), silent)]
    assert len(found) == len(kept)
    assert set(found) == kept


def test_too_many_choices_are_not_listed():
    assert left_over(np.ones(60, dtype=int), 4) is None


@pytest.mark.parametrize("criterion", ["marginal", "conditional"])
@pytest.mark.parametrize("missing", [1, 2])
def test_larger_ranks_tolerate_whatever_smaller_ones_do(criterion, missing):
    """So that one answer settles many others while candidates are compared."""
    rng, goal = np.random.default_rng(5), Goal(Fraction(4, 5), CRITERIA[criterion]())
    sizes, counts, votes = np.array([8, 20, 45]), np.array([2, 1, 1]), np.ones((3, 2), dtype=int)
    ranks = np.sort(sizes[:, None] - rng.integers(-1, 8, size=(60, 3, 2)), axis=2)
    tried = [given_ranks(sizes, counts, row, votes) for row in ranks]
    tolerated = [tolerates_missing(each, 0, goal, missing) for each in tried]
    for one, first in zip(tried, tolerated, strict=True):
        for other, second in zip(tried, tolerated, strict=True):
            assert second or not first or not (other.tops(0) >= one.tops(0)).all()
    assert set(tolerated) == {True, False}


@pytest.mark.slow
def test_the_bound_for_any_missing_site_says_nothing_that_trying_all_does_not():
    """One missing site and one faulty one of six: where the bound says yes, so does every choice."""
    goal, sure = Goal(Fraction(1, 2), max_faulty=1), 0
    sizes, counts = np.array([9, 20, 31, 40, 52, 60]), np.ones(6, dtype=int)
    for rank in range(1, 10):
        ranks = np.minimum(sizes, sizes * (rank + 1) // 10)[:, None]
        for weights in (np.ones((6, 1), dtype=int), np.array([[1], [2], [2], [2], [3], [3]])):
            tried = given_ranks(sizes, counts, ranks, weights)
            if _tolerates_any(tried, 0, goal, counts, 1):
                sure += 1
                assert all(_suffices(tried, 0, goal, left) for left in left_over(counts, 1))
    assert sure


def test_few_means_are_integrated_exactly_where_sites_may_lie_and_be_missing(monkeypatch):
    """There are 66 choices of two missing sites; few nodes tell for nearly all of them."""
    exact, calls = Federation.moments, []
    monkeypatch.setattr(Federation, "moments", lambda *args: calls.append(1) or exact(*args))
    sizes = [169, 229, 202, 607, 683, 721, 705, 460, 741, 124, 485, 330]
    goal = Goal(Fraction(9, 10), CRITERIA["marginal"](), max_faulty=2, max_missing=2)
    assert chosen(sizes, goal, Exact(1)).is_finite
    assert 0 < len(calls) < 30
