"""The Calibration: thresholds by level and by group, who answered, and what does not fit together."""

import json
import math

import numpy as np
import pytest

import fedconformal as fc
from documents.samples import changed, with_digest
from fedconformal.documents import Advice, Aggregate, Calibration

SIZES = {"A": 40, "B": 60, "C": 25, "D": 90, "E": 60}
GROUPS = {
    "old": {"A": 40, "B": 200, "C": 33},
    "young": {"A": 90, "B": 60, "C": 0},
    "child": {"A": 25, "B": 25, "C": 25},
}


def answered(plan, sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [fc.report(plan, rng.exponential(size=n), site=site) for site, n in sizes.items()]


def in_groups(plan, seed=5):
    rng, reports = np.random.default_rng(seed), []
    for site in "ABC":
        labels = np.repeat(list(GROUPS), [by_site[site] for by_site in GROUPS.values()])
        reports.append(fc.report(plan, rng.exponential(size=labels.size), site=site, groups=labels))
    return reports


@pytest.fixture(scope="module")
def found():
    plan = fc.plan(n_points=SIZES, confidence_level=0.9, max_missing=1)
    return fc.calibrate(plan, answered(plan, SIZES))


@pytest.fixture(scope="module")
def grouped():
    plan = fc.plan(groups=GROUPS, confidence_level=0.8, max_missing=1)
    return fc.calibrate(plan, in_groups(plan))


@pytest.fixture(scope="module")
def aggregated():
    privacy = fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 1, 100))
    plan = fc.plan(n_sites=3, n_points=300, privacy=privacy)
    return fc.calibrate_histogram(plan, 3 * np.eye(100, dtype=int)[90])


class TestConsistency:
    def test_levels_are_those_of_the_plan(self, found):
        part = found.parts[0]
        with pytest.raises(ValueError, match="levels"):
            changed(part, levels=())
        other = part.levels[0].model_copy(update={"confidence_level": 0.8})
        with pytest.raises(ValueError, match="levels must be those of the plan"):
            changed(found, parts=(part.model_copy(update={"levels": (other,)}),))

    def test_somebody_answered(self, found):
        part = found.parts[0].model_copy(update={"answers": ()})
        with pytest.raises(ValueError, match="server_rank is left out if too few sites answered"):
            changed(found, parts=(part,))
        endless = part.levels[0].model_copy(update={"server_rank": None, "threshold": math.inf})
        with pytest.raises(ValueError, match="at least one site must have answered"):
            changed(found, parts=(part.model_copy(update={"levels": (endless,)}),))

    def test_inconsistent_answers(self, found):
        part, answer = found.parts[0], found.answers[0]
        for answers, words in [
            ((answer, answer), "answered twice"),
            ((answer.model_copy(update={"ranks": ((1,), (2,)), "weights": None}),), "ranks for each level"),
            ((answer.model_copy(update={"weights": ((1,), (2,))}),), "weights must hold one entry for each"),
            ((answer.model_copy(update={"weights": ((1, 2),)}),), "as many as there are ranks"),
            ((answer.model_copy(update={"ranks": ((42,),)}),), r"between 1 and n \+ 1"),
        ]:
            with pytest.raises(ValueError, match=words):
                changed(part, answers=answers)
        with pytest.raises(ValueError, match="server_rank must lie above max_faulty"):
            changed(found, parts=(part.model_copy(update={"answers": (answer,)}),))

    @pytest.mark.parametrize("weight", [0, 2**20 + 1, 1.5])
    def test_votes_are_positive_whole_numbers(self, found, weight):
        content = json.loads(found.to_json())
        content["parts"][0]["answers"][0]["weights"] = [[weight]]
        with pytest.raises(fc.DocumentError, match="weights") as caught:
            Calibration.from_json(json.dumps(with_digest(content)))
        assert "\n" not in str(caught.value)

    def test_votes_and_thresholds(self, found):
        part, level = found.parts[0], found.levels[0]
        too_many = level.model_copy(update={"server_rank": part.n_votes(0) + 1})
        with pytest.raises(ValueError, match="advice goes with a server_rank that no votes reach"):
            changed(found, parts=(part.model_copy(update={"levels": (too_many,)}),))
        advised = too_many.model_copy(update={"advice": Advice()})
        with pytest.raises(ValueError, match="above the number of votes has the threshold Infinity"):
            changed(found, parts=(part.model_copy(update={"levels": (advised,)}),))
        beyond = level.model_copy(update={"server_rank": part.n_votes(0) + 2, "threshold": math.inf})
        with pytest.raises(ValueError, match="up to the number of votes plus 1"):
            changed(found, parts=(part.model_copy(update={"levels": (beyond,)}),))
        with pytest.raises(ValueError, match="without votes the threshold is Infinity"):
            changed(part, levels=(level.model_copy(update={"server_rank": None}),))
        with pytest.raises(ValueError, match="n_missing counts the missing sites"):
            changed(part, missing=("Z",))

    def test_reports_are_by_site_and_behind_every_answer(self, found):
        with pytest.raises(ValueError, match="alphabetical order"):
            changed(found, reports=found.reports[::-1])
        with pytest.raises(ValueError, match="answered without a report"):
            changed(found, reports=found.reports[1:])

    @pytest.mark.parametrize("code", ["Ties", "x" * 61])
    def test_assumptions_are_codes(self, found, code):
        with pytest.raises(ValueError, match="assumptions"):
            changed(found, assumptions=(code,))

    def test_an_aggregate_must_fit_the_plan(self, aggregated):
        part, alike = aggregated.parts[0], aggregated.parts[0].aggregated[0]
        for change in ({"n": 301}, {"count": 4}, {"ranks": ((1,),)}):
            wrong = part.model_copy(update={"aggregated": (alike.model_copy(update=change),)})
            with pytest.raises(ValueError, match=r"aggregated answers|server_rank"):
                changed(aggregated, parts=(wrong,))
        public = fc.plan(n_sites=3, n_points=300)
        with pytest.raises(ValueError, match="aggregated answers"):
            changed(aggregated, plan=public)

    def test_answers_come_by_name_or_aggregated(self, found, aggregated):
        with pytest.raises(ValueError, match="by name or aggregated"):
            changed(found.parts[0], aggregated=(Aggregate(count=1, n=40, ranks=((1,),)),))
        content = json.loads(aggregated.to_json())
        content["plan"]["privacy"]["one_hot"] = True
        assert Calibration.from_json(json.dumps(with_digest(content))).n_answers == 3
        content["parts"][0].pop("aggregated")
        content["parts"][0]["answers"] = [{"site": "A", "n": 300, "ranks": [[1]]}]
        content["reports"] = [{"site": "A", "report": "sha256:" + "0" * 64}]
        with pytest.raises(fc.DocumentError, match="asks for aggregated answers"):
            Calibration.from_json(json.dumps(with_digest(content)))


class TestViews:
    def test_of_groups_are_by_label(self, grouped):
        for name in ("threshold", "law", "missing", "n_missing", "server_rank"):
            assert list(getattr(grouped, name)) == ["child", "old", "young"]
        assert grouped.n_answers == 3
        for name in ("part", "levels", "answers", "thresholds"):
            with pytest.raises(
                ValueError, match=r"has groups: ask one of them, as in calibration\['child'\]"
            ):
                getattr(grouped, name)
        with pytest.raises(KeyError, match="no group 'adult'"):
            grouped["adult"]

    def test_one_group_is_an_ordinary_calibration(self, grouped):
        """Of the sites and reports that counted there; the plan inside is that of the group."""
        old = grouped["old"]
        assert old.threshold == grouped.threshold["old"]
        assert old.plan == grouped.plan["old"]
        assert not old.plan.is_grouped
        assert [answer.site for answer in old.answers] == ["A", "B", "C"]
        assert [received.site for received in grouped["young"].reports] == ["A", "B"]
        with pytest.raises(ValueError, match="this is group 'old' of a calibration: write the whole"):
            old.to_json()


class TestNewPoints:
    def test_what_is_no_label_is_refused(self, grouped):
        with pytest.raises(TypeError, match="text or a whole number"):
            grouped.threshold_of([1.0])
        with pytest.raises(ValueError, match="flat array"):
            grouped.threshold_of([["old"]])

    def test_a_strange_label_is_infinite_and_said_aloud(self, grouped):
        with pytest.warns(fc.UnknownGroupWarning, match=r"2 of 3 points.*'Old', 'old '"):
            thresholds = grouped.threshold_of(["Old", "old", "old "])
        assert thresholds.tolist() == [math.inf, grouped.threshold["old"], math.inf]


class TestGroups:
    @pytest.mark.parametrize(
        "forge",
        [
            lambda c: c["parts"].reverse(),
            lambda c: c["parts"].pop(),
            lambda c: c["parts"][0].update(levels=[{**c["parts"][1]["levels"][0], "confidence_level": 0.7}]),
            lambda c: c.update(authenticated=True),
            lambda c: c["plan"]["parts"][0].update(label="zebra"),
        ],
    )
    def test_parts_that_do_not_fit_together(self, grouped, forge):
        content = json.loads(grouped.to_json())
        forge(content)
        with pytest.raises(fc.DocumentError, match="not a calibration"):
            Calibration.from_json(json.dumps(with_digest(content)))
