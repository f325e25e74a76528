"""A mechanism is one class: ours, and one that somebody brings."""

import ast
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from fedconformal import privacy
from fedconformal.privacy import MECHANISMS, Balanced, Bins, Mechanism, Privacy, Slopes, simulate_releases
from fedconformal.privacy.mechanisms import Exponential, PermuteAndFlip
from privacy.histograms import counts_alarm

NINE = Balanced(Fraction(9, 10))
OURS = (PermuteAndFlip(), Exponential())
each_mechanism = pytest.mark.parametrize("mechanism", OURS, ids=repr)


class Timid(Mechanism):
    """The exponential mechanism with twice the noise that is asked for."""

    name = "timid"
    words = "a timid mechanism"

    def pmf(self, weights):
        return Exponential().pmf(np.sqrt(weights))

    def tail(self, t, n_bins):
        return Exponential().tail(t / 2, n_bins)

    def measurement(self, scale, width, epsilon):
        return Exponential().measurement(2 * scale, width, epsilon)

    def noise(self, rng, shape):
        return 2 * Exponential().noise(rng, shape)


def names_used(tree):
    """Every name and attribute that is read, and every module that is imported whole."""
    nodes = list(ast.walk(tree))
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}


@pytest.fixture
def timid():
    MECHANISMS.register(Timid)
    yield Privacy(epsilon=2.0, bins=Bins.uniform(0, 1, 4), mechanism="timid").release().aimed(NINE)
    MECHANISMS.unregister("timid")


class TestOneOfYourOwn:
    def test_has_its_own_pmf(self, timid):
        weights = np.exp(-(timid.rank_errors([3, 2, 4, 1]) - 9.0) / (2 * timid.scale))
        assert timid.pmf([3, 2, 4, 1]) == pytest.approx(weights / weights.sum(), rel=1e-13)

    def test_is_drawn_and_simulated_as_its_pmf_says(self, timid):
        """3,000 exact draws and 10^5 simulated ones; a right program fails with probability 1e-7 for each."""
        counts = [3, 2, 4, 1]
        draw = timid.prepare(counts)
        seen = Counter(draw() for _ in range(3000))
        assert not counts_alarm(np.array([seen[b] for b in range(4)]), timid.pmf(counts))
        table = np.broadcast_to(counts, (100_000, 4))
        drawn = simulate_releases(table, timid, rng=np.random.default_rng(1))
        assert not counts_alarm(np.bincount(drawn, minlength=4), timid.pmf(counts))

    def test_gives_a_law_of_the_sites(self, timid):
        below = timid.sites(np.array([50, 80])).below(np.array([0.0, 0.5, 0.99]))
        assert below.shape == (3, 2)
        assert np.all(np.diff(below, axis=0) > 0)


class TestSecurity:
    def test_nothing_in_the_release_path_can_be_seeded(self):
        """Mechanisms may speak of a generator where they simulate, in ``noise``, and nowhere else."""
        room = Path(privacy.__file__).parent
        mechanisms = sorted((room / "mechanisms").glob("*.py"))
        assert len(mechanisms) >= 4
        for file in (*mechanisms, *(room / f"_{name}.py" for name in ("aims", "release", "loss", "count"))):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
                kind.body = [part for part in kind.body if getattr(part, "name", "") != "noise"]
            assert not names_used(tree) & {
                "random",
                "seed",
                "default_rng",
                "RandomState",
                "Generator",
                "noise",
            }

    @each_mechanism
    def test_a_release_never_asks_for_simulated_noise(self, mechanism, monkeypatch):
        def refuse(*_):
            raise AssertionError("simulated noise in a release")

        monkeypatch.setattr(type(mechanism), "noise", refuse)
        release = Privacy(epsilon=1, bins=Bins([0, 1, 2]), mechanism=mechanism.name).release()
        for aim in (NINE, Slopes(Fraction(9, 10), Fraction(7, 10))):
            assert release.aimed(aim).prepare([3, 2, 4])() in (0, 1, 2)
