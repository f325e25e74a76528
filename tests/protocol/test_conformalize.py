"""Plan, report and calibrate in one call."""

import numpy as np
import pytest

import fedconformal as fc

RNG = np.random.default_rng(0)
SCORES = {"north": RNG.random(120), "south": RNG.random(40), "west": RNG.random(77)}
SIZES = {site: values.size for site, values in SCORES.items()}
LABELS = {
    site: np.where(np.arange(n) % 3 == 0, "child", "adult") for site, n in SIZES.items()
}
OPTIONS = [
    {},
    {"confidence_level": [0.8, 0.9], "numbers": 3},
    {"promise": "mixture", "mixture": {"north": 1, "south": 1, "west": 2}},
    {"promise": "each-site"},
    {"local_ranks": "paper", "criterion": "marginal"},
    {"group_by": "site"},
    {"curve": fc.Bins.uniform(0, 1, 50), "terms": {"purpose": "a test"}},
]


@pytest.mark.slow
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_is_what_the_three_verbs_give(options):
    plan = fc.plan(n_points=SIZES, **options)
    asked = plan.site_names if plan.is_grouped else plan.designs[0].asked_names
    answers = [
        fc.report(plan, SCORES[site], site=site, policy=fc.SitePolicy.unlimited())
        for site in asked
    ]
    assert fc.conformalize(SCORES, **options) == fc.calibrate(plan, answers)


@pytest.mark.parametrize("by", [None, "class", ("site", "label")])
def test_groups(by):
    sizes = {
        label: {site: int((LABELS[site] == label).sum()) for site in SCORES}
        for label in ("adult", "child")
    }
    options = {"group_by": by, "confidence_level": 0.8}
    plan = fc.plan(groups=sizes, **options)
    answers = [
        fc.report(
            plan,
            SCORES[site],
            site=site,
            groups=LABELS[site],
            policy=fc.SitePolicy.unlimited(),
        )
        for site in SCORES
    ]
    expected = fc.calibrate(plan, answers)
    assert fc.conformalize(SCORES, groups=LABELS, **options) == expected
    flat, labels = (
        np.concatenate(list(SCORES.values())),
        np.concatenate(list(LABELS.values())),
    )
    sites = np.repeat(list(SIZES), list(SIZES.values()))
    order = np.random.default_rng(1).permutation(flat.size)
    found = fc.conformalize(
        flat[order], sites=sites[order], groups=labels[order], **options
    )
    assert found == expected


def test_sites_without_names():
    by_place = fc.conformalize(list(SCORES.values()))
    assert by_place.plan.site_names == ("1", "2", "3")
    assert by_place.threshold == fc.conformalize(SCORES).threshold


def test_sets_follow_at_once():
    found = fc.conformalize({7: SCORES["north"]}, score="absolute")
    np.testing.assert_allclose(
        found.predict_interval([0.0]), [[-found.threshold, found.threshold]]
    )


def test_much_is_selected_in_threads_with_the_same_result(monkeypatch):
    expected = fc.conformalize(SCORES)
    monkeypatch.setattr("fedconformal.protocol._conformalize._MANY", 1)
    assert fc.conformalize(SCORES) == expected


PRIVATE = {f"site {j}": RNG.random(300) for j in range(5)}


class TestPrivacy:
    privacy = fc.Privacy(5.0, fc.Bins.uniform(0, 1, 20))

    @pytest.mark.slow
    def test_accounts_are_charged_where_they_are_given(self, tmp_path):
        ledgers = {site: fc.Ledger.create(tmp_path / f"{site}.db") for site in PRIVATE}
        for ledger in ledgers.values():
            ledger.set_budget("calibration", 7)
        first = fc.conformalize(PRIVATE, privacy=self.privacy, ledgers=ledgers)
        again = fc.conformalize(PRIVATE, privacy=self.privacy, ledgers=ledgers)
        assert first == again
        assert [ledger.remaining("calibration") for ledger in ledgers.values()] == [
            2
        ] * 5
        with pytest.raises(fc.privacy.BudgetExceededError):
            fc.conformalize(
                PRIVATE, privacy=self.privacy, ledgers=ledgers, confidence_level=0.8
            )

    def test_each_site_needs_an_account(self, tmp_path):
        with pytest.raises(ValueError, match="there is none for 'site 0'"):
            fc.conformalize(PRIVATE, privacy=self.privacy, ledgers={})
        with pytest.raises(
            ValueError, match="ledgers were given, but the plan is not private"
        ):
            fc.conformalize(PRIVATE, ledgers={})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": {}}, "scores must hold the scores of at least one site"),
        (
            {"scores": np.ones(5)},
            "for one flat array, sites must give the site of each score",
        ),
        (
            {"scores": {"A": []}},
            "site 'A': scores must be a flat array with at least one score",
        ),
        ({"scores": {1: [1.0], "1": [1.0]}}, "name each site once"),
        ({"scores": {"A": [1.0]}, "sites": ["A"]}, "sites goes with one flat array"),
        (
            {"scores": {"A": [1.0]}, "groups": {"B": ["x"]}},
            "groups must have the sites of scores, 'A', got 'B'",
        ),
        (
            {"scores": {"A": [1.0]}, "groups": {"A": ["x", "y"]}},
            "one label for each of the 1 rows",
        ),
        ({"scores": {"A": [1.0]}, "min_group": 0}, "min_group must be"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        fc.conformalize(**arguments)
