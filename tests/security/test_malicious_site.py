"""Reports from somebody who wants to move the threshold, or to count more than once."""

import numpy as np
import pytest

import fedconformal as fc
from documents.samples import forged
from fedconformal.documents import CurvePayload, ReportPart

SITES = dict.fromkeys(("A", "B", "C", "D", "E"), 40)


def answers(plan, sites=SITES, keys=None, seed=0):
    rng = np.random.default_rng(seed)
    return [
        fc.report(
            plan, rng.random(n), site=site, key=None if keys is None else keys[site]
        )
        for site, n in sites.items()
    ]


class TestReplay:
    """What was signed in one round counts in no other."""

    def test_reports_of_january_do_not_count_in_february(self):
        keys = {site: fc.SigningKey.new() for site in SITES}
        listed = {site: key.public_key for site, key in keys.items()}
        january, february = (fc.plan(n_points=SITES, keys=listed) for _ in range(2))
        old = answers(january, keys=keys)
        with pytest.raises(fc.RefusedReportsError, match="answers another plan"):
            fc.calibrate(february, old)
        renamed = [
            report.model_copy(update={"plan": february.digest}) for report in old
        ]
        with pytest.raises(
            fc.RefusedReportsError, match="the signature is not that of the site's key"
        ):
            fc.calibrate(february, renamed)

    @pytest.mark.parametrize(
        "terms",
        [
            {"round": "a"},
            {"model": "sha256:" + "1" * 64},
            {"expires": "9999-01-01T00:00:00Z"},
        ],
    )
    def test_round_model_and_expiry_are_all_bound(self, terms):
        plan, other = fc.plan(n_points=SITES), fc.plan(n_points=SITES, terms=terms)
        with pytest.raises(fc.RefusedReportsError, match="answers another plan"):
            fc.calibrate(other, answers(plan))

    def test_signatures_of_one_round_certify_no_other(self):
        """A forged calibration with real signatures, but of another plan, is not
        authenticated.
        """
        keys = {site: fc.SigningKey.new() for site in SITES}
        listed = {site: key.public_key for site, key in keys.items()}
        old = fc.plan(n_points=SITES, keys=listed, terms={"round": "january"})
        new = fc.plan(
            n_points=SITES,
            keys=listed,
            terms={"round": "february", "model": "sha256:" + "0" * 64},
        )
        real = fc.calibrate(old, answers(old, keys=keys))
        assert real.authenticated
        moved = fc.Calibration.from_json(
            real.model_copy(update={"plan": new}).to_json()
        )
        assert not moved.authenticated
        assert not all(finding.holds for finding in fc.audit.verify(moved))


class TestSybils:
    """Nobody counts more than once by taking many names."""

    @pytest.mark.slow
    def test_an_open_plan_for_five_takes_no_more(self):
        plan = fc.plan(n_sites=5)
        many = {**SITES, **{f"sybil {i}": 40 for i in range(200)}}
        with pytest.raises(
            fc.RefusedReportsError,
            match="205 reports from sites, and the plan expects 5",
        ):
            fc.calibrate(plan, answers(plan, many))

    def test_names_that_come_first_displace_nobody(self):
        """One too many of a size, and none of that size counts: nobody knows which are
        honest.
        """
        plan = fc.plan(n_points=[40, 40, 50])
        honest = {"B": 40, "C": 40, "D": 50}
        found = fc.calibrate(
            plan, answers(plan, {"A": 40, **honest}), on_refused="skip"
        )
        assert found.answered == ("D",)
        assert len(found.refused) == 3

    def test_in_a_group_too(self):
        plan = fc.plan(groups={"a": [40, 40], "b": [40, 40]}, confidence_level=0.8)
        reports = [
            fc.report(
                plan,
                np.arange(40 * len(labels)),
                site=site,
                groups=np.repeat(labels, 40),
            )
            for site, labels in {"A": ["a"], "B": ["a", "b"], "C": ["a", "b"]}.items()
        ]
        found = fc.calibrate(plan, reports, on_refused="skip")
        assert found["a"].threshold == np.inf
        assert found["b"].answered == ("B", "C")

    def test_faulty_reports_mean_nothing_where_anybody_may_answer(self):
        with pytest.raises(
            ValueError, match="max_faulty must be 0 while anybody may answer, got 1"
        ):
            fc.plan(max_faulty=1)
        assert fc.plan(max_faulty=1, n_sites=5).max_faulty == 1
        assert fc.plan(SITES, max_faulty=1).max_faulty == 1
        plan = fc.plan(n_sites=5, max_faulty=1)
        with pytest.raises(
            fc.DocumentError,
            match="below half the number of sites, which must be known",
        ):
            fc.Plan.from_json(forged(plan, {"designs.0.expected": None}))


class TestCurves:
    """Counts that no honest site sends move nothing unnoticed, as far as they can be
    told from noise.
    """

    GRID = fc.Bins.uniform(0, 1, 20)

    def test_faulty_sites_and_curves_do_not_go_together(self):
        for options in ({"curve": self.GRID}, {"privacy": fc.Privacy(4.0, self.GRID)}):
            with pytest.raises(ValueError, match="max_faulty must be 0 with curves"):
                fc.plan(n_sites=5, n_points=200, max_faulty=1, **options)
            plan = fc.plan(n_sites=5, n_points=200, **options)
            written = fc.Plan.from_json(forged(plan, {"designs.0.max_faulty": 1}))
            with pytest.raises(ValueError, match="max_faulty must be 0 with curves"):
                fc.calibrate(written, [])

    @pytest.mark.parametrize(
        "counts",
        [
            [2**62] * 4 + [200] + [0] * 15,
            [-1, 201] + [0] * 18,
            [201] + [0] * 19,
            [0] * 21,
        ],
    )
    def test_exact_counts_are_those_of_no_more_scores_than_a_site_has(self, counts):
        """Four times 2^62 are nothing in 64 bits: they are added up in whole numbers of
        any size.
        """
        plan = fc.plan(n_sites=5, n_points=200, curve=self.GRID)
        part = ReportPart(n=200, payload=CurvePayload(counts=tuple(counts)))
        with pytest.raises(
            fc.RefusedReportsError,
            match=r"add up to at most 200|21 counts instead of 20",
        ):
            fc.calibrate(plan, [fc.Report(plan=plan.digest, site="A", parts=(part,))])

    @pytest.mark.parametrize("count", [2**62 + 1, -(2**62) - 1, 1.5, "1", True])
    def test_nor_can_larger_ones_be_read(self, count):
        plan = fc.plan(n_sites=5, n_points=200, curve=self.GRID)
        sent = fc.report(
            plan, np.ones(200), site="A", policy=fc.SitePolicy(curves="plain")
        )
        with pytest.raises(fc.DocumentError, match="counts"):
            fc.Report.from_json(forged(sent, {"parts.0.payload.counts.0": count}))

    def test_sums_of_noisy_counts_do_not_wrap_round(self):
        """Counts of 2^62 that cancel in the total: in 64 bits the sums of five of these
        would be small.
        """
        plan = fc.plan(n_sites=5, n_points=200, privacy=fc.Privacy(4.0, self.GRID))
        found = []
        for much in (2**62, -(2**62)):
            counts = (much, -much, 200, *(0,) * 17)
            part = ReportPart(n=200, payload=CurvePayload(counts=counts))
            reports = [
                fc.Report(plan=plan.digest, site=site, parts=(part,)) for site in SITES
            ]
            found.append(fc.calibrate(plan, reports).threshold)
        assert found == [self.GRID.edges[2]] * 2

    def test_noisy_counts_add_up_to_about_the_number_of_scores(self):
        plan = fc.plan(n_sites=5, n_points=200, privacy=fc.Privacy(4.0, self.GRID))
        part = ReportPart(n=200, payload=CurvePayload(counts=(2**62,) * 20))
        reports = [
            fc.Report(plan=plan.digest, site=site, parts=(part,)) for site in SITES
        ]
        with pytest.raises(
            fc.RefusedReportsError, match="which noise cannot make of 200 scores"
        ):
            fc.calibrate(plan, reports)
