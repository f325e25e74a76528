"""Coverage as sites grow different: larger scores, one odd site, other labels; and who stands out."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from scipy import special

from fedconformal._extras import need
from fedconformal._typing import Floats, Ints
from fedconformal.experiments._methods import DIFFERENT, QQ, Method, Sites
from fedconformal.experiments._store import Rows
from fedconformal.heterogeneity import compare_sites, shifted_law
from fedconformal.laws import Distortion, heterogeneity_losses
from fedconformal.metrics import clopper_pearson
from fedconformal.protocol import calibrate, plan, report

SCALES, ONE_ODD, LABELS, WHO = "a quarter of the sites", "one odd site", "labels", "who stands out"
N_SITES, N_POINTS, N_NEW = 20, 100, 200
FACTORS = (1.0, 1.25, 1.5, 2.0, 3.0)
CONCENTRATIONS = (100.0, 10.0, 3.0, 1.0, 0.3, 0.1)
ODD = {3: 2.0, 7: 0.5, 11: 3.0}
_HALVINGS = 60


def heterogeneity(
    level: float,
    runs: int,
    *,
    factors: Sequence[float] = FACTORS,
    concentrations: Sequence[float] = CONCENTRATIONS,
) -> Rows:
    """All panels of the study.

    Parameters
    ----------
    level : float
        The confidence level.
    runs : int
        Simulated federations for every point of a curve.
    factors : sequence of float
        How much larger the scores of odd sites are.
    concentrations : sequence of float
        Of the Dirichlet law of labels; the smaller, the less alike are the sites.

    Returns
    -------
    list of dict
        A row for each panel, value and curve, and one for each site of the last panel.
    """
    return [
        *_scales(SCALES, range(N_SITES // 4), factors, level, runs, test=None),
        *_scales(ONE_ODD, [0], factors, level, runs, test=0),
        *_labels(concentrations, level, runs),
        *_who(level),
    ]


class World(Protocol):
    """Federations that can be drawn, each with the coverage of a threshold known exactly."""

    def draw(self, rng: np.random.Generator) -> tuple[Sites, Callable[[float], float]]:
        """The scores of each site, and the coverage as a function of the threshold."""
        ...


# -- larger scores -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Scaled:
    """Half-normal scores, larger by a factor at each site; test points of these sites."""

    factors: Floats
    tested: Floats

    def draw(self, rng: np.random.Generator) -> tuple[Sites, Callable[[float], float]]:
        scores = self.factors[:, None] * np.abs(rng.standard_normal((self.factors.size, N_POINTS)))
        return list(scores), self.coverage

    def coverage(self, threshold: float) -> float:
        return float(_half_normal(threshold / self.tested).mean())

    def distortions(self) -> list[Distortion]:
        """Return for each site the share of its scores below the c-quantile of the test points' scores."""
        of_factor = {f: partial(self._distortion, f) for f in self.factors.tolist()}
        return [of_factor[f] for f in self.factors.tolist()]

    def _distortion(self, factor: float, c: Floats) -> Floats:
        return _half_normal(self._quantile(np.asarray(c, dtype=float)) / factor)

    def _quantile(self, c: Floats) -> Floats:
        """Invert the coverage by bisection, between the quantiles of the smallest and the largest scores."""
        scales, shares = np.unique(self.tested, return_counts=True)
        base = np.sqrt(2) * special.erfinv(c)
        if scales.size == 1:
            return np.asarray(base * scales[0])
        low, high = np.where(c < 1, base, 0.0) * scales[0], np.where(c < 1, base, 0.0) * scales[-1]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            under = _half_normal(middle[..., None] / scales) @ shares <= c * self.tested.size
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return np.where(c < 1, (low + high) / 2, np.inf)


def _half_normal(x: Floats) -> Floats:
    shares: Floats = special.erf(np.maximum(x, 0) / np.sqrt(2))
    return shares


def _scales(
    panel: str, odd: Collection[int], factors: Sequence[float], level: float, runs: int, *, test: int | None
) -> Rows:
    """The odd sites have larger scores; test points of one site, or of all."""
    names = [f"site {j}" for j in range(N_SITES)]
    chosen = plan(n_points=dict.fromkeys(names, N_POINTS), confidence_level=level, criterion="marginal")
    rows: Rows = []
    for factor in factors:
        each = np.array([factor if j in odd else 1.0 for j in range(N_SITES)])
        world = _Scaled(each, each if test is None else each[[test]])
        rows += _simulated(panel, factor, world, level, runs)
        law = shifted_law(chosen, dict(zip(names, world.distortions(), strict=True)))
        bound = chosen.law.mean() - heterogeneity_losses(law.federation)[0]
        common = {"panel": panel, "x": factor, "confidence_level": level, "method": QQ}
        rows.append({**common, "curve": "exact law", "coverage": law.mean()})
        rows.append({**common, "curve": "Proposition 3.4", "coverage": bound})
    return rows


# -- other labels ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Relabelled:
    """Sites that draw from one population, each by shares of labels of its own.

    The population is finite, so the coverage at each site is known exactly: that of the worst site counts.
    """

    by_label: Sequence[Floats]
    concentration: float

    def draw(self, rng: np.random.Generator) -> tuple[Sites, Callable[[float], float]]:
        shares: Floats = rng.dirichlet(np.full(len(self.by_label), self.concentration), size=N_SITES)
        sites = [self._site(rng, share) for share in shares]
        return sites, lambda threshold: self._worst(shares, threshold)

    def _site(self, rng: np.random.Generator, share: Floats) -> Floats:
        sizes = np.array([scores.size for scores in self.by_label])
        first = np.cumsum(sizes) - sizes
        labels: Ints = rng.choice(sizes.size, N_POINTS, p=share)
        drawn: Floats = np.concatenate(self.by_label)[first[labels] + rng.integers(0, sizes[labels])]
        return drawn

    def _worst(self, shares: Floats, threshold: float) -> float:
        covered = [np.searchsorted(s, threshold, side="right") / s.size for s in self.by_label]
        return float((shares @ np.array(covered)).min())


def _labels(concentrations: Sequence[float], level: float, runs: int) -> Rows:
    """Digits: sites with shares of labels drawn from a Dirichlet law; scores of a logistic regression."""
    scores, labels = _digits()
    by_label = [np.sort(scores[labels == label]) for label in range(10)]
    return [
        row
        for concentration in concentrations
        for row in _simulated(LABELS, concentration, _Relabelled(by_label, concentration), level, runs)
    ]


def _digits() -> tuple[Floats, Ints]:
    """Scores and labels of scikit-learn's digits that a small model was not trained on."""
    sets = need("sklearn.datasets", extra="experiments")
    linear = need("sklearn.linear_model", extra="experiments")
    X, y = sets.load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, rest = order[:300], order[300:]
    model = linear.LogisticRegression(max_iter=2000, C=0.01).fit(X[train] / 16, y[train])
    return 1 - model.predict_proba(X[rest] / 16)[np.arange(len(rest)), y[rest]], y[rest]


def _simulated(
    panel: str, x: float, world: World, level: float, runs: int, methods: Sequence[Method] = DIFFERENT
) -> Rows:
    """Mean coverage of each method over federations, all methods on the same ones."""
    rng = np.random.default_rng(0)
    found: dict[str, list[float]] = {method.name: [] for method in methods}
    for _ in range(runs):
        sites, coverage = world.draw(rng)
        for method in methods:
            found[method.name].append(coverage(method.threshold(sites, level, rng)))
    return [
        {
            "panel": panel,
            "x": x,
            "confidence_level": level,
            "method": name,
            "curve": "simulated",
            "coverage": float(np.mean(values)),
            "runs": runs,
            "n_sites": N_SITES,
            "n_points": N_POINTS,
        }
        for name, values in found.items()
    ]


# -- who stands out ----------------------------------------------------------------------------------------


def _who(level: float) -> Rows:
    """One federation with three odd sites: the coverage of new points at each, and who is named."""
    rng = np.random.default_rng(7)
    chosen = plan(N_SITES, N_POINTS, confidence_level=level, criterion="marginal")
    factors = [ODD.get(j, 1.0) for j in range(N_SITES)]
    reports = [
        report(chosen, factor * np.abs(rng.standard_normal(N_POINTS)), site=f"{j:02}")
        for j, factor in enumerate(factors)
    ]
    named = compare_sites(chosen, reports, reference=np.abs(rng.standard_normal(500)))
    threshold = float(calibrate(chosen, reports).threshold)
    rows: Rows = []
    for finding, factor in zip(named.sites, factors, strict=True):
        covered = int((factor * np.abs(rng.standard_normal(N_NEW)) <= threshold).sum())
        lower, upper = (float(end) for end in clopper_pearson(covered, N_NEW))
        rows.append(
            {
                "panel": WHO,
                "site": finding.site,
                "confidence_level": level,
                "n": N_NEW,
                "covered": covered,
                "coverage": covered / N_NEW,
                "lower": lower,
                "upper": upper,
                "stands_out": finding.stands_out,
                "p_value": finding.p_value,
            }
        )
    return rows
