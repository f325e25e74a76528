"""Which bins to take, and bins of one's own."""

import json

import numpy as np
import pytest

import fedconformal as fc

FEDERATION = ("--sites", 10, "--points", 300, "--epsilon", 2)
RANGE = ("--bins", "uniform:0:10:40")


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_kinds_are_compared_and_the_best_one_can_be_used(run):
    printed = run("bins", *FEDERATION, *RANGE, "--shape", "half-normal", "-o", "edges.csv")
    assert "uniform" in printed.out
    assert "take: fine around the threshold of half-normal scores, coverage 0.9" in printed.out
    assert "--bins edges:edges.csv" in printed.err
    run("plan", *FEDERATION, "--bins", "edges:edges.csv", "-o", "plan.json")
    plan = fc.Plan.read("plan.json")
    before = fc.plan(10, 300, privacy=fc.Privacy(epsilon=2.0, bins=fc.Bins.uniform(0, 10, 40)))
    best = fc.Bins.suggest(before, "half-normal")[0].bins
    assert plan.bins == best
    costs = [fc.privacy.expected_cost(each, "half-normal")[0].expected for each in (plan, before)]
    assert costs[0] < costs[1]


@pytest.mark.slow
def test_public_scores_and_several_shapes(run):
    np.savetxt("public.csv", np.random.default_rng(0).gamma(2.0, size=400), header="score", comments="")
    found = json.loads(run("bins", *FEDERATION, *RANGE, "--scores", "public.csv", "--json").out)
    assert found[0]["expected"].keys() == {"reference"}
    assert found[0]["expected"]["reference"] == min(each["expected"]["reference"] for each in found)
    assert len(found[0]["edges"]) <= 40
    shapes = ("--shape", "gamma", "--shape", "uniform", "--criterion", "marginal")
    found = json.loads(run("bins", *FEDERATION, *RANGE, *shapes, "--json").out)
    worst = [max(each["expected"].values()) for each in found]
    assert worst == sorted(worst)


def test_mistakes_are_one_line(run):
    assert (
        "do not go together"
        in run("bins", *FEDERATION, *RANGE, "--shape", "gamma", "--scores", "public.csv", code=2).err
    )
    assert "got 'weibull'" in run("bins", *FEDERATION, *RANGE, "--shape", "weibull", code=2).err
    hopeless = ("--sites", 3, "--points", 10, "--epsilon", 0.1)
    assert "It would take" in run("bins", *hopeless, *RANGE, code=2).err


class TestBinsOnTheCommandLine:
    def bins(self, run, text, *options):
        return fc.Plan.from_json(run("plan", *FEDERATION, "--bins", text, *options, "--json").out).bins

    def test_edges(self, run):
        assert self.bins(run, "edges:0.1,0.5,2") == fc.Bins([0.1, 0.5, 2.0])
        assert self.bins(run, "edges:0.1,0.5,1", "--bounded") == fc.Bins([0.1, 0.5, 1.0], bounded=True)

    def test_a_reference_with_or_without_a_bound(self, run):
        scores = np.random.default_rng(0).random(100)
        np.savetxt("public.csv", scores, header="score", comments="")
        assert self.bins(run, "reference:public.csv:20") == fc.Bins.from_reference(scores, 20)
        bounded = self.bins(run, "reference:public.csv:20:1", "--score", "lac")
        assert bounded == fc.Bins.from_reference(scores, 20, bound=1.0)
        assert bounded.bounded

    @pytest.mark.parametrize(
        "text", ["grid:1:2:3", "uniform:0:1", "reference:20", "edges:", "edges:1,0", "log:a:b:3"]
    )
    def test_what_is_no_bins_is_refused(self, run, text):
        assert f"--bins '{text}'" in run("plan", *FEDERATION, "--bins", text, code=2).err
