"""Who is expected, who is there, and whether that is enough."""

import logging

import pytest

import fedconformal as fc
from fedconformal.protocol import sites_needed, suffices
from fedconformal.rounds import check_present

LOG = logging.getLogger("fedconformal.test")
SIZES = {"A": 40, "B": 40, "C": 10}
BINS = fc.Bins.uniform(0, 1, 20)


def present(plan, *names, **options):
    check_present(plan, dict(enumerate(names)), log=LOG, **options)


def threshold_of(plan, sizes):
    """Whether the threshold is finite if these sites answer, by calibrating."""
    reports = [fc.report(plan, range(n), site=site) for site, n in sizes.items()]
    return max(fc.calibrate(plan, reports).thresholds) < float("inf")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"confidence_level": 0.95},
        {"confidence_level": [0.5, 0.9]},
        {"max_missing": 1, "confidence_level": 0.8},
        {"promise": "new-site", "confidence_level": 0.5},
        {"promise": "mixture"},
        {"promise": "each-site"},
    ],
)
def test_names_suffice_exactly_if_their_calibration_has_finite_thresholds(options):
    plan = fc.plan(n_points=SIZES, **options)
    for there in ("A", "C", "AB", "BC", "ABC"):
        asked = [site for site in there if site in plan.designs[0].asked_names]
        finite = bool(asked) and threshold_of(
            plan, {site: SIZES[site] for site in asked}
        )
        assert suffices(plan, list(there)) == finite, there


@pytest.mark.parametrize(
    "options",
    [
        {"n_points": 79},
        {"n_points": 5},
        {"n_points": 79, "max_faulty": 1},
        {"n_points": 50, "promise": "new-site"},
        {"n_points": 79, "confidence_level": [0.5, 0.95]},
        {"n_points": 79, "promise": "mixture"},
    ],
)
def test_the_number_of_equal_sites_is_the_smallest_with_finite_thresholds(
    options,
):
    plan = fc.plan(n_sites=12, **options)
    n, fewest = options["n_points"], 2 * plan.max_faulty + 1
    finite = [
        threshold_of(plan, dict.fromkeys(map(str, range(m)), n))
        for m in range(fewest, 13)
    ]
    assert finite == sorted(finite)
    assert sites_needed(plan) == fewest + finite.index(True)
    assert [suffices(plan, m) for m in range(fewest, 13)] == finite


@pytest.mark.parametrize(
    ("options", "needed"),
    [
        ({"n_sites": 100_000, "n_points": 50}, 2),
        ({}, 1),
        ({"promise": "new-site"}, 9),  # 9 of 10 new sites: the largest of 9 numbers
        ({"n_sites": 6}, 6),
        ({"n_sites": 6, "max_missing": 2}, 4),
        ({"groups": {"child": None, "adult": None}}, 1),
        ({"n_points": SIZES, "group_by": "site"}, 1),
        ({"curve": BINS, "n_sites": 10, "n_points": 79}, 1),
    ],
)
def test_the_number_of_sites_that_suffice_whichever_they_are(options, needed):
    plan = fc.plan(**options)
    assert sites_needed(plan) == needed
    assert suffices(plan, needed)
    assert needed == 1 or not suffices(plan, needed - 1)


UNEVEN = fc.plan(n_points=SIZES, confidence_level=0.95)


def test_the_log_names_who_is_there_and_who_is_missing(caplog):
    caplog.set_level("INFO", LOG.name)
    present(fc.plan(n_sites=10, n_points=79), "", "", "")
    present(UNEVEN, "B", "C", "stranger")
    present(fc.plan(), "x", "y")
    assert caplog.messages == [
        "sites that are there: 3 of 10",
        "sites that are there: 2 of 3 (missing: 'A')",
        "sites that are there: 2",
    ]


@pytest.mark.parametrize(
    ("plan", "names", "options", "reason"),
    [
        (
            UNEVEN,
            "AB",
            {},
            (
                r"at least 3 sites must be there, got 2 of 3 \(missing: 'C'\);"
                r" min_sites=2 starts"
            ),
        ),
        (
            UNEVEN,
            ["", ""],
            {},
            "at least 3 sites must be there, got 2 of 3; min_sites=2 starts",
        ),
        (UNEVEN, "ABC", {"minimum": 4}, "at least 4 sites must be there, got 3 of 3"),
        (UNEVEN, "A", {"minimum": 0}, "min_sites"),
        (
            fc.plan(n_sites=2, n_points=80),
            [],
            {},
            "at least 2 sites must be there, got 0 of 2$",
        ),
        (fc.plan(n_sites=6), [""], {}, "at least 6 sites must be there, got 1 of 6"),
        (
            fc.plan(promise="new-site"),
            [""],
            {},
            "at least 9 sites must be there, got 1;",
        ),
    ],
)
def test_too_few_are_refused(plan, names, options, reason):
    with pytest.raises(ValueError, match=reason):
        present(plan, *names, **options)


def test_fewer_may_do_if_told_and_who_has_answered_need_not_be_there():
    present(UNEVEN, "A", "B", minimum=2)
    present(UNEVEN, "B", answered=["C"])
    present(UNEVEN, "", "", answered=["A"])
