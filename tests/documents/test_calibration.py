"""The Calibration: thresholds by level and by group, who answered, and what does not
fit together.
"""

import json
import math

import numpy as np
import pytest

import fedconformal as fc
from documents.samples import changed, forged
from fedconformal.documents import Calibration
from protocol.sending import GROUPS, SITES, SIZES, answered, drawn, federation


@pytest.fixture(scope="module")
def found():
    plan = fc.plan(n_points=SIZES, max_missing=1)
    return fc.calibrate(plan, federation(plan, SIZES)[1:])


@pytest.fixture(scope="module")
def grouped():
    plan, rng = (
        fc.plan(groups=GROUPS, confidence_level=[0.7, 0.8], max_missing=1),
        np.random.default_rng(5),
    )
    return fc.calibrate(
        plan, answered(plan, {site: drawn(GROUPS, rng, site=site) for site in SITES})
    )


D, P = "parts.0.design", "parts.0"


class TestConsistency:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"parts": []}, "at least 1 item"),
            ({f"{D}.levels": []}, "at least 1 item"),
            (
                {f"{D}.levels.0.confidence_level": "0.8"},
                "the levels must be those of the plan",
            ),
            ({f"{D}.promise": "mixture"}, "must be those of the plan"),
            ({f"{D}.criterion": "marginal"}, "must be those of the plan"),
            ({f"{D}.max_faulty": 1}, "must be those of the plan"),
            ({f"{D}.max_missing": None}, "must be those of the plan"),
            ({f"{D}.group": "a"}, "the parts must be those of the plan"),
            (
                {f"{D}.message": {"kind": "cases", "numbers": 1}},
                "the message must be that of the plan",
            ),
            ({f"{D}.sites": None}, "the message must be that of the plan"),
            ({f"{D}.sites": []}, "the message must be that of the plan"),
            ({f"{D}.sites.0.names": None}, "the sites that answered must have names"),
            ({f"{D}.sites.0.count": 2}, "the sites that answered must have names"),
            ({f"{D}.sites.0.names": ["D"]}, "a site answered twice"),
            ({f"{D}.sites.0.names": ["Z"]}, "a site answered without a report"),
            ({f"{D}.sites.0.n": 61}, "the plan expects .* scores from site"),
            ({f"{D}.message.levels.0.ranks": [[1]]}, "for each kind of sites"),
            ({f"{D}.message.levels.0.ranks.0": [1000]}, r"between 1 and n \+ 1"),
            (
                {f"{D}.message.levels.0.votes": [[2], [1], [1], [0]]},
                "greater than or equal to 1",
            ),
            (
                {f"{D}.message.levels.0.votes": [[2], [1], [1], [2**20 + 1]]},
                "less than or equal to 1048576",
            ),
            ({f"{D}.message.levels.0.votes": [[2], [1], [1], [1.5]]}, "valid integer"),
            (
                {f"{D}.message.levels.0.votes": [[2], [1], [1], [1, 2]]},
                "one for all numbers of a site, or one for each",
            ),
            (
                {f"{D}.levels.0.votes": None},
                "votes must be left out if too few sites answered, and only then",
            ),
            (
                {f"{D}.levels.0.advice": {}},
                "must be Infinity where the level is not reached",
            ),
            ({f"{P}.thresholds": [1.0, 2.0]}, "a threshold for each level"),
            ({f"{P}.thresholds": ["-Infinity"]}, "finite number or the word"),
            ({f"{P}.missing": ["A", "Z"]}, "n_missing must count the missing sites"),
            ({"assumptions": ["Ties"]}, "assumptions"),
            ({"assumptions": ["x" * 61]}, "assumptions"),
            ({"authenticated": True}, "Extra inputs"),
            (
                {"plan.designs.0.levels.0.votes": None},
                "every level needs a number of votes",
            ),
        ],
    )
    def test_what_does_not_fit_together_is_refused(self, found, changes, words):
        with pytest.raises(fc.DocumentError, match=words) as caught:
            Calibration.from_json(forged(found, changes))
        assert "\n" not in str(caught.value)

    def test_reports_are_by_site_and_behind_every_answer(self, found):
        with pytest.raises(ValueError, match="alphabetical order"):
            changed(found, reports=found.reports[::-1])
        with pytest.raises(ValueError, match="answered without a report"):
            changed(found, reports=found.reports[1:])

    def test_no_more_sites_answer_than_the_plan_has(self):
        plan = fc.plan(n_points=[40, 40, 50])
        fewer = fc.plan(n_points=[40, 50])
        both = fc.calibrate(plan, federation(plan, {"A": 40, "B": 40, "C": 50}))
        with pytest.raises(
            ValueError, match="more sites of a size answered than the plan has"
        ):
            changed(both, plan=fewer)

    @pytest.mark.parametrize(
        "forge",
        [
            lambda c: c["parts"].reverse(),
            lambda c: c["parts"].pop(),
            lambda c: c["parts"][0]["design"].update(group="zebra"),
            lambda c: c["plan"]["designs"][0].update(group="zebra"),
        ],
    )
    def test_parts_are_those_of_the_groups(self, grouped, forge):
        content = json.loads(grouped.to_json())
        forge(content)
        with pytest.raises(fc.DocumentError, match="not a calibration"):
            Calibration.from_json(forged(grouped, content))


class TestViews:
    def test_of_one_group_and_level(self, grouped):
        part = grouped.by_group["old"]
        for view in (grouped["old", 0.8], grouped[0.8]["old"]):
            assert view.threshold == part.thresholds[1]
            assert view.law.mean() >= 0.8
            assert (view.missing, view.n_missing, view.answered) == (
                (),
                0,
                ("A", "B", "C"),
            )
            assert (view.server_rank, view.calibration) == (
                part.design.levels[1].votes,
                grouped,
            )
        assert grouped["old"].thresholds == part.thresholds
        assert grouped["young"].answered == ("A", "B")
        assert (grouped.n_answers, grouped.answered, grouped.missing) == (
            3,
            ("A", "B", "C"),
            (),
        )

    def test_of_several_say_how_to_ask_for_one(self, grouped, found):
        with pytest.raises(
            ValueError, match=r"as in calibration\['child', 0.7\].threshold"
        ):
            _ = grouped.threshold
        with pytest.raises(
            ValueError, match=r"as in calibration\['child'\].thresholds"
        ):
            _ = grouped.thresholds
        with pytest.raises(
            KeyError, match="no group 'adult': there are 'child', 'old', 'young'"
        ):
            grouped["adult"]
        assert found[0.9].threshold == found.threshold

    def test_missing_and_not_asked_are_different_facts(self, found):
        assert (found.missing, found.n_missing, found.not_asked) == (("A",), 1, ())
        plan = fc.plan(
            n_points={"A": 20, "B": 400}, confidence_level=0.8, max_missing=0
        )
        alone = fc.calibrate(plan, federation(plan, {"B": 400}))
        assert (alone.missing, alone.n_missing, alone.not_asked) == ((), 0, ("A",))


class TestNewPoints:
    def test_what_is_no_label_is_refused(self, grouped):
        with pytest.raises(TypeError, match="text or a whole number"):
            grouped.threshold_of([1.0])
        with pytest.raises(ValueError, match="flat array"):
            grouped.threshold_of([["old"]])

    def test_an_unknown_label_is_infinite_and_gives_a_warning(self, grouped):
        with pytest.warns(
            fc.UnknownGroupWarning, match=r"2 of 3 points.*'Old', 'old '"
        ):
            thresholds = grouped.threshold_of(["Old", "old", "old "])
        endless = [math.inf, math.inf]
        assert thresholds.tolist() == [
            endless,
            list(grouped["old"].thresholds),
            endless,
        ]
