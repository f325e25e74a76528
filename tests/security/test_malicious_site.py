"""Reports from somebody who wants to move the threshold, or to count more than once."""

import json

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.cli import main

SITES = dict.fromkeys(("A", "B", "C", "D", "E"), 40)


def answers(plan, sites=SITES, keys=None, seed=0):
    rng = np.random.default_rng(seed)
    return [
        fc.report(plan, rng.random(n), site=site, key=None if keys is None else keys[site])
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
        forged = [report.model_copy(update={"plan": february.digest}) for report in old]
        with pytest.raises(fc.RefusedReportsError, match="the signature is not that of the site's key"):
            fc.calibrate(february, forged)

    @pytest.mark.parametrize(
        "field", [{"round": "a"}, {"model": "sha256:" + "1" * 64}, {"expires": "9999-01-01T00:00:00Z"}]
    )
    def test_round_model_and_expiry_are_all_bound(self, field):
        plan, other = fc.plan(n_points=SITES), fc.plan(n_points=SITES, **field)
        with pytest.raises(fc.RefusedReportsError, match="answers another plan"):
            fc.calibrate(other, answers(plan))

    def test_signatures_of_one_round_certify_no_other(self):
        """A forged calibration with real signatures, but of another plan, is not authenticated."""
        keys = {site: fc.SigningKey.new() for site in SITES}
        listed = {site: key.public_key for site, key in keys.items()}
        old = fc.plan(n_points=SITES, keys=listed, round="january")
        new = fc.plan(n_points=SITES, keys=listed, round="february", model="sha256:" + "0" * 64)
        real = fc.calibrate(old, answers(old, keys=keys))
        assert real.authenticated
        forged = fc.Calibration.from_json(real.model_copy(update={"plan": new}).to_json())
        assert not forged.authenticated
        assert not all(finding.holds for finding in fc.audit.verify(forged))


class TestSybils:
    """Nobody counts more than once by taking many names."""

    @pytest.mark.slow
    def test_an_open_plan_for_five_takes_no_more(self):
        plan = fc.plan(n_sites=5)
        many = {**SITES, **{f"sybil {i}": 40 for i in range(200)}}
        with pytest.raises(fc.RefusedReportsError, match="205 reports from sites, and the plan expects 5"):
            fc.calibrate(plan, answers(plan, many))

    def test_names_that_come_first_displace_nobody(self):
        """One too many of a size, and none of that size counts: nobody knows which are honest."""
        plan = fc.plan(n_points=[40, 40, 50])
        honest = {"B": 40, "C": 40, "D": 50}
        found = fc.calibrate(plan, answers(plan, {"A": 40, **honest}), on_refused="skip")
        assert [answer.site for answer in found.answers] == ["D"]
        assert len(found.refused) == 3

    def test_in_a_group_too(self):
        plan = fc.plan(groups={"a": [40, 40], "b": [40, 40]}, confidence_level=0.8)
        reports = [
            fc.report(plan, np.arange(40 * len(labels)), site=site, groups=np.repeat(labels, 40))
            for site, labels in {"A": ["a"], "B": ["a", "b"], "C": ["a", "b"]}.items()
        ]
        found = fc.calibrate(plan, reports, on_refused="skip")
        assert found.threshold["a"] == np.inf
        assert [answer.site for answer in found["b"].answers] == ["B", "C"]

    def test_faulty_reports_mean_nothing_where_anybody_may_answer(self):
        with pytest.raises(ValueError, match="max_faulty must be 0 while anybody may answer, got 1"):
            fc.plan(max_faulty=1)
        assert fc.plan(max_faulty=1, n_sites=5).max_faulty == 1
        assert fc.plan(max_faulty=1, sites=SITES).max_faulty == 1
        plan = fc.plan(n_sites=5, max_faulty=1)
        part = plan.parts[0].model_copy(update={"expected": None})
        with pytest.raises(fc.DocumentError, match="max_faulty must be 0 while anybody may answer"):
            fc.Plan.from_json(plan.model_copy(update={"parts": (part,)}).to_json())


class TestHistograms:
    """One site cannot cast every vote of a sum unnoticed where that can be noticed."""

    PRIVACY = fc.Privacy(epsilon=4.0, bins=fc.Bins.uniform(0, 1, 20), one_hot=True)

    def test_faulty_sites_and_sums_do_not_go_together(self):
        with pytest.raises(ValueError, match="max_faulty must be 0 with one-hot sums"):
            fc.plan(n_sites=5, n_points=200, privacy=self.PRIVACY, max_faulty=1)

    def test_nor_in_a_plan_that_somebody_wrote(self):
        plan = fc.plan(n_sites=5, n_points=200, privacy=self.PRIVACY)
        part = plan.parts[0].model_copy(update={"max_faulty": 1})
        with pytest.raises(fc.DocumentError, match="max_faulty"):
            fc.Plan.from_json(plan.model_copy(update={"parts": (part,)}).to_json())

    def test_nor_where_a_sum_is_only_possible(self):
        """Whether or not the plan demands sums: one site could have made all of it."""
        privacy = fc.Privacy(epsilon=4.0, bins=fc.Bins.uniform(0, 1, 20))
        plan = fc.plan(n_sites=7, n_points=200, privacy=privacy, max_faulty=1)
        votes = np.zeros(20, dtype=int)
        votes[0] = 7
        with pytest.raises(ValueError, match="max_faulty"):
            fc.calibrate_histogram(plan, votes)

    def test_a_sum_that_wraps_round_is_no_small_number(self):
        """Four times 2^62 and five more are five in 64 bits: a plan for five sites has not been answered."""
        plan = fc.plan(n_sites=5, n_points=200, privacy=self.PRIVACY)
        for kind in (np.int64, np.uint64):
            votes = np.array([2**62] * 4 + [5] + [0] * 15, dtype=kind)
            with pytest.raises(ValueError, match="histogram must count 1 to 5 sites"):
                fc.calibrate_histogram(plan, votes)

    def test_a_single_site_has_one_vote(self, tmp_path, monkeypatch, capsys):
        monkeypatch.chdir(tmp_path)
        plan = fc.plan(n_sites=5, n_points=200, privacy=self.PRIVACY)
        (tmp_path / "plan.json").write_text(plan.to_json())
        one, every = np.zeros((2, 1, 20), dtype=int)
        one[0, 3], every[0, 7] = 1, 4
        for name, vector in {"A": one, "B": every}.items():
            content = {"plan": plan.digest, "one_hot": vector.tolist()}
            (tmp_path / f"{name}.json").write_text(json.dumps(content))
        assert main(["calibrate", "plan.json", "A.json", "B.json", "--histogram"]) == 2
        assert "B.json: not one site's vector" in capsys.readouterr().err
        assert main(["calibrate", "plan.json", "B.json", "--histogram"]) == 2
        assert "--sum if it is the sum of all" in capsys.readouterr().err
        assert main(["calibrate", "plan.json", "B.json", "--histogram", "--sum"]) == 0
        (tmp_path / "C.json").write_text("[" + "[]," * 10**6 + "[]]")
        assert main(["calibrate", "plan.json", "C.json", "--histogram"]) == 2
        assert "larger than any of this shape" in capsys.readouterr().err

    def test_two_sites_cannot_cast_all_votes_by_numbers_that_wrap_round(self, tmp_path, monkeypatch, capsys):
        """Entries that are -7 and 8, or 1 in all, modulo 2^64: seven honest votes move to the first bin."""
        monkeypatch.chdir(tmp_path)
        privacy = fc.Privacy(epsilon=4.0, bins=fc.Bins.uniform(0, 10, 100), one_hot=True)
        plan = fc.plan(n_sites=9, n_points=500, privacy=privacy)
        (tmp_path / "plan.json").write_text(plan.to_json())

        def vector(votes):
            return [[votes.get(i, 0) for i in range(100)]]

        def calibrated(liars):
            sent = [vector({40: 1})] * 7 + liars
            for i, one_hot in enumerate(sent):
                content = {"plan": plan.digest, "one_hot": one_hot}
                (tmp_path / f"{i}.json").write_text(json.dumps(content))
            files = [f"{i}.json" for i in range(9)]
            code = main(["calibrate", "plan.json", *files, "--histogram", "-o", "c.json", "--force"])
            return code, capsys.readouterr().err

        assert calibrated([vector({0: 1}), vector({0: 1})])[0] == 0
        assert fc.Calibration.read("c.json").threshold == 4.1
        half = 2**63
        first = vector({0: half, 1: half, 40: 2**64 - 7, 2: 8})
        for liar in (
            first,
            vector({40: 2**64 - 7, 0: 8}),
            vector({0: half, 1: half, 2: 1}),
            vector({0: -1, 1: 2}),
        ):
            code, error = calibrated([liar, vector({0: 1})])
            assert code == 2
            assert "7.json: not a one-hot vector for this plan: counts from 0 to 9" in error
