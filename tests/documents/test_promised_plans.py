"""Plans for sites that differ, as documents: what they hold, and hostile ones that are refused."""

import json

import pytest

import fedconformal as fc
from documents.samples import with_digest

MIXED = fc.plan(n_points={"A": 60, "B": 40, "C": 90}, promise="mixture", mixture={"A": 0.5, "B": 0.5, "C": 0})
DRAWN = fc.plan(n_points={f"site {i}": 30 + i for i in range(12)}, promise="new-site", numbers=2)
FEW = fc.plan(n_sites=12, n_points=[1, 2, 30] * 4, promise="new-site", numbers=3)
RANKED = fc.plan(n_sites=20, n_points=[50, 80] * 10, promise="new-site", criterion="conditional")
OPEN = fc.plan(n_sites=20, promise="new-site", criterion="conditional")
USUAL = fc.plan(n_points={"A": 60, "B": 40, "C": 90})


def edited(plan, **changes):
    """A plan with some of its fields changed by path, as text with the right digest."""
    content = json.loads(plan.to_json())
    for path, value in changes.items():
        at = content
        *way, last = path.split("__")
        for step in way:
            at = at[int(step) if step.isdigit() else step]
        if value is None:
            at.pop(last)
        else:
            at[int(last) if last.isdigit() else last] = value
    return json.dumps(with_digest(content))


@pytest.mark.parametrize("plan", [MIXED, DRAWN, FEW, RANKED, OPEN])
def test_are_read_as_they_were_written(plan):
    assert fc.Plan.from_json(plan.to_json()) == plan
    assert fc.Plan.from_json(edited(plan)) == plan


def test_views():
    assert {name: float(share) for name, share in MIXED.mixture.items()} == {"A": 0.5, "B": 0.5, "C": 0}
    assert list(fc.plan(n_points=[9, 19], promise="mixture", confidence_level=0.5).mixture) == [
        pytest.approx(1 / 3),
        pytest.approx(2 / 3),
    ]
    assert USUAL.mixture is None
    assert (DRAWN.local_ranks, OPEN.local_ranks) == (None, None)
    assert OPEN.guarantee is None
    assert USUAL.guarantee.mean == USUAL.law.mean()
    assert "np." not in repr(USUAL.guarantee)


PART, BLOCK, LEVEL = "parts__0", "parts__0__blocks__0", "parts__0__levels__0"


@pytest.mark.parametrize(
    ("plan", "changes", "words"),
    [
        (
            MIXED,
            {f"{LEVEL}__server_rank": MIXED.server_rank - 10},
            "the votes needed are too few for a promise to this mixture",
        ),
        (MIXED, {f"{BLOCK}__weights": [[1, 1, 1, 1, 2**20]]}, "too few for a promise to this mixture"),
        (MIXED, {f"{BLOCK}__share": "1/4"}, "the shares of a mixture must add up to 1"),
        (MIXED, {f"{BLOCK}__share": "2/4"}, "share must be a fraction in lowest terms"),
        (MIXED, {f"{BLOCK}__share": None}, "for a promise to a mixture every site has a share"),
        (MIXED, {f"{BLOCK}__share": "-1/2"}, "share"),
        (MIXED, {f"{BLOCK}__share": "1/0"}, "share"),
        (
            MIXED,
            {f"{BLOCK}__share": f"1/{10**39 + 7}", "parts__0__blocks__1__share": f"1/{10**39 + 9}"},
            r"must have a common denominator of at most 10\^40",
        ),
        (
            MIXED,
            {f"{BLOCK}__share": "0/1", "parts__0__blocks__1__share": "1/1"},
            "a site without a share of the mixture is not asked",
        ),
        (MIXED, {f"{PART}__criterion": "stable"}, "criterion must be marginal with promise 'mixture'"),
        (MIXED, {f"{PART}__promise": "population"}, "a share of new points goes with a promise to a mixture"),
        (MIXED, {f"{PART}__max_faulty": 1}, "max_faulty must be 0 with promise 'mixture'"),
        (USUAL, {f"{BLOCK}__share": "1/3"}, "a share of new points goes with a promise to a mixture"),
        (USUAL, {f"{PART}__cases": 1}, "random round"),
        (
            USUAL,
            {f"{PART}__cases": 1, "round": "0" * 32},
            "cases are drawn for a promise on average over new",
        ),
        (USUAL, {f"{LEVEL}__eta": "1/2"}, "eta goes with a promise to new sites one by one"),
        (DRAWN, {f"{LEVEL}__server_rank": 20}, "the votes needed are too few for a promise to a new site"),
        (DRAWN, {f"{BLOCK}__ranks": [[2, 3]]}, "sites that draw cases send them in order, with their votes"),
        (
            DRAWN,
            {f"{BLOCK}__weights": [[1, 2]]},
            "sites that draw cases send them in order, with their votes",
        ),
        (FEW, {f"{BLOCK}__weights": [[2]]}, "sites without names must have the same ranks"),
        (DRAWN, {f"{PART}__cases": None}, "cases are drawn for a promise on average over new sites"),
        (DRAWN, {f"{PART}__cases": 0}, "cases"),
        (DRAWN, {f"{PART}__cases": 21}, "cases"),
        (DRAWN, {"round": None}, "has a random round: 32 hexadecimal digits"),
        (DRAWN, {"round": "spring"}, "has a random round: 32 hexadecimal digits"),
        (DRAWN, {f"{LEVEL}__eta": "1/2"}, "eta goes with a promise to new sites one by one"),
        (RANKED, {f"{LEVEL}__server_rank": 18}, "the votes needed are too few for a promise to a new site"),
        (RANKED, {f"{LEVEL}__eta": "999/1000"}, "a site's rank must keep the chance eta"),
        (RANKED, {f"{LEVEL}__eta": "1/1000"}, "the votes needed are too few"),
        (RANKED, {f"{LEVEL}__eta": "1/1"}, "fractions below 1 in lowest terms"),
        (RANKED, {f"{LEVEL}__eta": None}, "a level has its eta"),
        (RANKED, {f"{BLOCK}__ranks": [[3]]}, "sites without names must have the same ranks"),
        (RANKED, {f"{PART}__max_faulty": 1}, "max_faulty must be 0 with promise 'new-site'"),
        (OPEN, {f"{LEVEL}__eta": None}, "an open plan has a share for every level, or an eta, or cases"),
        (OPEN, {f"{LEVEL}__share": "9/10"}, "an open plan has a share for every level, or an eta, or cases"),
        (OPEN, {f"{PART}__promise": "mixture"}, "delta does not fit|criterion must be|eta goes with"),
    ],
)
def test_hostile_ones_are_refused(plan, changes, words):
    with pytest.raises(ValueError, match=words):
        fc.Plan.from_json(edited(plan, **changes))


@pytest.mark.slow
def test_a_thousand_odd_shares_are_refused_at_once():
    """Adding up fractions without a common denominator would take for ever."""
    names = [f"s{i}" for i in range(1000)]
    plan = fc.plan(
        n_points=dict.fromkeys(names, 20), promise="mixture", mixture={n: i + 1 for i, n in enumerate(names)}
    )
    content = json.loads(plan.to_json())
    for i, block in enumerate(content["parts"][0]["blocks"]):
        block["share"] = f"1/{10**38 + 2 * i + 1}"
    with pytest.raises(ValueError, match="must have a common denominator"):
        fc.Plan.from_json(json.dumps(with_digest(content)))
