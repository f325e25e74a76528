"""Missing sites: a plan that tolerates some has a finite threshold, whichever they
are.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.laws._federation import Federation, leave_out
from fedconformal.planning import CRITERIA, PROMISES, Ballot, Goal, Solution, _choosing
from fedconformal.planning._ballot import single_candidate
from fedconformal.planning._choosing import _suffices, _tolerates_any, tolerates_missing
from planning import plans
from planning.plans import alike, kinds, quiet, tolerates

POPULATION = PROMISES["population"]()
CASES = [
    ("marginal", 0),
    ("stable", 0),
    ("conditional", 0),
    ("stable", 1),
    ("conditional", 1),
]


def drawn(rng, *, most_sites=5, largest=60):
    """Sizes of a federation: some equal, some far apart."""
    m = int(rng.integers(2, most_sites + 1))
    few = rng.integers(3, largest + 1, size=int(rng.integers(1, 4)))
    return np.sort(rng.choice(few, size=m))


def chosen(sizes, goal, numbers=1):
    return POPULATION.choose(alike(sizes), goal, numbers, None)


def left_finite(solution, goal, n_missing):
    return plans.left_finite(POPULATION, solution, goal, n_missing)


def planned(plan, place=0):
    """The solution and the goal of one level of a plan."""
    design = plan.designs[0]
    level = plan.message.levels[place]
    ballot = Ballot(design.kinds, level.ranks, level.all_votes())
    return Solution(ballot, design.levels[place].votes), Goal.from_design(design, place)


@pytest.mark.slow
@pytest.mark.parametrize(("criterion", "faulty"), CASES)
@pytest.mark.parametrize("numbers", [1, 2])
def test_a_solution_knows_what_it_tolerates(criterion, faulty, numbers):
    """Exactly for one missing site; for several it never says too much."""
    rng, bears = np.random.default_rng(1), set()
    for _ in range(7):
        sizes = drawn(rng, largest=60 if numbers == 1 else 40)
        f = faulty if 2 * faulty < sizes.size else 0
        level = Fraction(str(rng.choice([0.5, 0.8, 0.9])))
        goal = Goal(level, CRITERIA[criterion](), max_faulty=f)
        found = chosen(sizes, goal, numbers)
        expected = found.is_finite and left_finite(found, goal, 1)
        bears.add(expected)
        assert POPULATION.tolerates(found, goal, 1) == expected, (sizes, level, found)
        assert not POPULATION.tolerates(found, goal, 2) or left_finite(
            found, goal, 2
        ), (sizes, level, found)
    assert bears == {True, False}


@pytest.mark.slow
@pytest.mark.parametrize(("criterion", "faulty"), CASES)
@pytest.mark.parametrize(("numbers", "missing"), [(1, 1), (1, 2), (3, 1)])
def test_as_many_may_be_missing_as_were_asked_for(criterion, faulty, numbers, missing):
    """Or the plan is infeasible, and then the largest scores of the sites that are left
    would not do.
    """
    rng, feasible = np.random.default_rng(2), 0
    for _ in range(5):
        sizes = drawn(rng, most_sites=5 if numbers == 1 else 4, largest=40)
        f = faulty if 2 * faulty < sizes.size else 0
        level = Fraction(str(rng.choice([0.5, 0.8, 0.9])))
        goal = Goal(level, CRITERIA[criterion](), max_faulty=f, max_missing=missing)
        found = chosen(sizes, goal, numbers)
        feasible += found.is_finite
        if found.is_finite:
            assert left_finite(found, goal, missing), (sizes, level, found)
            continue
        fewest = sizes[
            : max(0, sizes.size - missing)
        ]  # the smallest sites, if the largest are missing
        if fewest.size > 2 * f:
            assert not chosen(
                fewest, replace(goal, max_missing=0), numbers
            ).is_finite, (sizes, level)
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
def test_lies_of_heavy_sites_and_of_those_that_send_infinity_are_tolerated_too(
    sizes, level, criterion, numbers
):
    """What a faulty site can do depends on its weight, and on what it would have
    sent.
    """
    goal = Goal(Fraction(level), CRITERIA[criterion](), max_faulty=1, max_missing=1)
    found = chosen(sizes, goal, numbers)
    assert found.is_finite
    assert POPULATION.tolerates(found, goal, 1)
    assert left_finite(found, goal, 1)


@pytest.mark.parametrize(
    "sizes", [[20, 200], [4, 30, 300], [12, 12, 400], [9, 9, 9, 90]]
)
def test_a_site_that_could_stand_in_for_a_missing_one_is_asked(sizes):
    """Small sites can never change the threshold while the largest answers; they can if
    it does not.
    """
    plan = quiet(n_points=sizes, confidence_level=0.8, max_missing=1)
    assert plan.feasible
    assert plan.designs[0].n_asked > 1
    assert left_finite(*planned(plan), 1)
    assert tolerates(plan)
    assert not any("missing site" in note for note in plan.notes)


def test_nobody_else_may_be_missing_than_was_asked_for():
    """Without max_missing a plan may rest on all sites; its notes say so."""
    plan = fc.plan(n_sites=10, n_points=200, criterion="marginal")
    assert not tolerates(plan)
    (note,) = plan.notes
    assert (
        note
        == "At 90 %, one missing site could make the threshold infinite; to tolerate"
        " one, plan with max_missing=1 (--max-missing 1)."
    )
    bearing = fc.plan(n_sites=10, n_points=200, criterion="marginal", max_missing=1)
    assert bearing.notes == ()
    assert bearing.law.mean() > plan.law.mean() >= 0.9
    assert bearing.designs[0].max_missing == 1
    assert fc.Plan.from_json(bearing.to_json()) == bearing


def test_ranks_that_are_given_bear_it_or_the_plan_is_infeasible():
    """The rank of the marginal choice for ten sites of 200 points, 174, rests on all of
    them.
    """
    for share, missing, feasible in (
        ("0.865", 0, True),
        ("0.865", 1, False),
        ("0.9", 1, True),
    ):
        goal = Goal(Fraction(9, 10), CRITERIA["marginal"](), max_missing=missing)
        found = POPULATION.choose(kinds([200], [10]), goal, 1, Fraction(share))
        assert found.is_finite == feasible
        assert not (feasible and missing) or left_finite(found, goal, missing)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"max_missing": 3},
            (
                "with 3 sites of 200 cases, any 3 of which may be missing, so the"
                " threshold"
            ),
        ),
        (
            {"max_missing": 2, "max_faulty": 1},
            "any 2 of which may be missing and 1 may be faulty, so the",
        ),
        (
            {"max_faulty": 1, "confidence_level": 0.9999},
            "3 sites of 200 cases, of which 1 may be faulty,",
        ),
    ],
)
def test_a_warning_repeats_what_was_to_be_tolerated(options, words):
    with pytest.warns(fc.InfeasibleWarning, match=words):
        fc.plan(n_sites=3, n_points=200, **options)


@pytest.mark.slow
def test_notes_agree_with_what_a_missing_site_does():
    """Through documents: a note if and only if one missing site leaves an infinite
    threshold.
    """
    rng, said = np.random.default_rng(4), set()
    for _ in range(12):
        sizes = {f"{j}": int(n) for j, n in enumerate(drawn(rng))}
        criterion = str(rng.choice(["marginal", "stable", "conditional"]))
        plan = quiet(n_points=sizes, confidence_level=0.8, criterion=criterion)
        if not plan.feasible:
            continue
        broken = not left_finite(*planned(plan), 1)
        said.add(broken)
        assert any("missing site" in note for note in plan.notes) == broken, (
            sizes,
            criterion,
            plan.notes,
        )
    assert said == {True, False}


def test_each_group_and_level_has_its_own_note():
    sizes = {"young": [200] * 10, "old": [9] * 3}
    plan = quiet(groups=sizes, confidence_level=[0.8, 0.9], criterion="marginal")
    expected = [
        f"Group {group!r}: At {level:.0%}, one missing site".replace("%", " %")
        for group in ("old", "young")
        for level in (0.8, 0.9)
        if plan[group, level].feasible
        and not left_finite(
            *planned(
                quiet(
                    n_points=sizes[group], confidence_level=level, criterion="marginal"
                )
            ),
            1,
        )
    ]
    notes = [note for note in plan.notes if "missing site" in note]
    assert expected
    assert len(notes) == len(expected)
    assert all(
        note.startswith(start) for note, start in zip(notes, expected, strict=True)
    )


@pytest.mark.parametrize(
    ("counts", "missing"),
    [([3], 1), ([1, 2], 2), ([2, 1, 3], 2), ([1, 1], 2), ([1, 1], 0)],
)
def test_every_choice_of_missing_sites_is_listed_once(counts, missing):
    sites = [b for b, count in enumerate(counts) for _ in range(count)]
    kept = {
        tuple(there.count(b) for b in range(len(counts)))
        for there in combinations(sites, len(sites) - missing)
    }
    found = [tuple(rest.tolist()) for rest in leave_out(np.array(counts), missing)]
    assert len(found) == len(kept)
    assert set(found) == kept


def test_too_many_choices_are_not_tried(monkeypatch):
    tried_choices = []
    monkeypatch.setattr(
        _choosing, "_suffices", lambda *args: tried_choices.append(1) or True
    )
    sizes, counts = np.arange(40, 100), np.ones(60, dtype=int)
    tried = single_candidate(sizes, counts, sizes[:, None])
    goal = Goal(Fraction(9999, 10000), max_faulty=1)  # beyond what the bound can tell
    assert not tolerates_missing(tried, 0, goal, 2)
    assert not tried_choices
    assert tolerates_missing(tried, 0, goal, 1)
    assert len(tried_choices) == 60


@pytest.mark.parametrize("criterion", ["marginal", "conditional"])
@pytest.mark.parametrize("missing", [1, 2])
def test_larger_ranks_tolerate_whatever_smaller_ones_do(criterion, missing):
    """So that one answer settles many others while candidates are compared."""
    rng, goal = np.random.default_rng(5), Goal(Fraction(4, 5), CRITERIA[criterion]())
    sizes, counts, votes = (
        np.array([8, 20, 45]),
        np.array([2, 1, 1]),
        np.ones((3, 2), dtype=int),
    )
    ranks = np.sort(sizes[:, None] - rng.integers(-1, 8, size=(60, 3, 2)), axis=2)
    tried = [single_candidate(sizes, counts, row, votes) for row in ranks]
    tolerated = [tolerates_missing(each, 0, goal, missing) for each in tried]
    for one, first in zip(tried, tolerated, strict=True):
        for other, second in zip(tried, tolerated, strict=True):
            assert second or not first or not (other.tops(0) >= one.tops(0)).all()
    assert set(tolerated) == {True, False}


@pytest.mark.slow
def test_the_bound_for_any_missing_site_says_nothing_that_trying_all_does_not():
    """One missing site and one faulty one of six: where the bound says yes, so does
    every choice.
    """
    goal, sure = Goal(Fraction(1, 2), max_faulty=1), 0
    sizes, counts = np.array([9, 20, 31, 40, 52, 60]), np.ones(6, dtype=int)
    for rank in range(1, 10):
        ranks = np.minimum(sizes, sizes * (rank + 1) // 10)[:, None]
        for weights in (
            np.ones((6, 1), dtype=int),
            np.array([[1], [2], [2], [2], [3], [3]]),
        ):
            tried = single_candidate(sizes, counts, ranks, weights)
            if _tolerates_any(tried, 0, goal, counts, 1):
                sure += 1
                assert all(
                    _suffices(tried, 0, goal, left) for left in leave_out(counts, 1)
                )
    assert sure


def test_few_means_are_integrated_exactly_where_sites_may_lie_and_be_missing(
    monkeypatch,
):
    """There are 66 choices of two missing sites; few nodes tell for nearly all of
    them.
    """
    exact, calls = Federation.moments, []
    monkeypatch.setattr(
        Federation, "moments", lambda *args: calls.append(1) or exact(*args)
    )
    sizes = [169, 229, 202, 607, 683, 721, 705, 460, 741, 124, 485, 330]
    goal = Goal(Fraction(9, 10), CRITERIA["marginal"](), max_faulty=2, max_missing=2)
    assert chosen(sizes, goal).is_finite
    assert 0 < len(calls) < 30
