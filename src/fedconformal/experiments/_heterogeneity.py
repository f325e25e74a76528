"""Coverage as sites grow different: larger scores, one odd site, other labels; and who stands out."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from fedconformal._extras import need
from fedconformal.experiments._methods import DIFFERENT, QQ, Floats, Method, Sites
from fedconformal.experiments._store import Rows
from fedconformal.heterogeneity import MIXTURE, compare_sites, scale, what_if
from fedconformal.metrics import clopper_pearson
from fedconformal.planning import plan as make_plan
from fedconformal.server import calibrate
from fedconformal.site import report

SCALES, ONE_ODD, LABELS, WHO = "a quarter of the sites", "one odd site", "labels", "who stands out"
N_SITES, N_POINTS = 20, 100
FACTORS = (1.0, 1.25, 1.5, 2.0, 3.0)
CONCENTRATIONS = (100.0, 10.0, 3.0, 1.0, 0.3, 0.1)
ODD = {3: 2.0, 7: 0.5, 11: 3.0}


def heterogeneity(level: float, runs: int) -> Rows:
    """All panels of the study; ``runs`` federations for every point."""
    quarter = dict.fromkeys(range(N_SITES // 4), 1.0)
    return [
        *_scales(SCALES, quarter, level, runs, test=None),
        *_scales(ONE_ODD, {0: 1.0}, level, runs, test=0),
        *_labels(level, runs),
        *_who(level),
    ]


def _half_normal(x: Floats) -> Floats:
    shares: Floats = special.erf(np.maximum(x, 0) / np.sqrt(2))
    return shares


def _scales(panel: str, odd: Mapping[int, float], level: float, runs: int, *, test: int | None) -> Rows:
    """Half-normal scores, those of the odd sites larger by a factor; test points of one site, or of all."""
    names = [f"site {j}" for j in range(N_SITES)]
    chosen = make_plan(n_points=dict.fromkeys(names, N_POINTS), confidence_level=level)
    rows: Rows = []
    for factor in FACTORS:
        factors = np.array([factor if j in odd else 1.0 for j in range(N_SITES)])
        tested = factors if test is None else factors[[test]]

        def draw(rng: np.random.Generator, factors: Floats = factors) -> Sites:
            return list(factors[:, None] * np.abs(rng.standard_normal((N_SITES, N_POINTS))))

        def coverage(threshold: float, tested: Floats = tested) -> float:
            return float(_half_normal(threshold / tested).mean())

        rows += _simulated(panel, factor, draw, coverage, level, runs)
        asked = what_if(chosen, {names[j]: scale(factor) for j in odd})
        where = MIXTURE if test is None else names[test]
        common = {"panel": panel, "x": factor, "confidence_level": level, "method": QQ}
        rows.append({**common, "curve": "exact law", "coverage": asked.law(where).mean()})
        rows.append({**common, "curve": "Proposition 3.4", "coverage": asked.bounds(where)[0]})
    return rows


def _labels(level: float, runs: int) -> Rows:
    """Digits: sites with shares of labels drawn from a Dirichlet law; scores of a logistic regression.

    The population is the part of scikit-learn's digits that the model was not trained on; a site draws from
    it by its own shares, so its coverage is known exactly.
    """
    scores, labels = _digits()
    by_label = [np.sort(scores[labels == label]) for label in range(10)]
    rows: Rows = []
    for concentration in CONCENTRATIONS:
        shares: list[Floats] = []

        def draw(
            rng: np.random.Generator, concentration: float = concentration, shares: list[Floats] = shares
        ) -> Sites:
            shares[:] = list(rng.dirichlet(np.full(10, concentration), size=N_SITES))
            return [
                np.array([rng.choice(by_label[label]) for label in rng.choice(10, N_POINTS, p=share)])
                for share in shares
            ]

        def coverage(threshold: float, shares: list[Floats] = shares) -> float:
            covered = [np.searchsorted(s, threshold, side="right") / s.size for s in by_label]
            return float(min(share @ covered for share in shares))

        rows += _simulated(LABELS, concentration, draw, coverage, level, runs)
    return rows


def _digits() -> tuple[Floats, Any]:
    """Scores and labels of the digits that a small model was not trained on."""
    sets = need("sklearn.datasets", extra="experiments")
    linear = need("sklearn.linear_model", extra="experiments")
    X, y = sets.load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train, rest = order[:300], order[300:]
    model = linear.LogisticRegression(max_iter=2000, C=0.01).fit(X[train] / 16, y[train])
    return 1 - model.predict_proba(X[rest] / 16)[np.arange(len(rest)), y[rest]], y[rest]


def _simulated(
    panel: str,
    x: float,
    draw: Callable[[np.random.Generator], Sites],
    coverage: Callable[[float], float],
    level: float,
    runs: int,
    methods: Sequence[Method] = DIFFERENT,
) -> Rows:
    """Mean coverage of each method over federations, all methods on the same ones."""
    rng = np.random.default_rng(0)
    found: dict[str, list[float]] = {method.name: [] for method in methods}
    for _ in range(runs):
        sites = draw(rng)
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


def _who(level: float) -> Rows:
    """One federation with three odd sites: the coverage of 200 new points at each, and who is named."""
    rng = np.random.default_rng(7)
    chosen = make_plan(N_SITES, N_POINTS, confidence_level=level)
    factors = [ODD.get(j, 1.0) for j in range(N_SITES)]
    reports = [
        report(chosen, factor * np.abs(rng.standard_normal(N_POINTS)), site=f"{j:02}")
        for j, factor in enumerate(factors)
    ]
    named = compare_sites(chosen, reports, reference=np.abs(rng.standard_normal(500)))
    threshold = float(calibrate(chosen, reports).threshold)
    rows: Rows = []
    for finding, factor in zip(named.sites, factors, strict=True):
        n = 200
        covered = int((factor * np.abs(rng.standard_normal(n)) <= threshold).sum())
        lower, upper = (float(end) for end in clopper_pearson(covered, n))
        rows.append(
            {
                "panel": WHO,
                "site": finding.site,
                "confidence_level": level,
                "n": n,
                "covered": covered,
                "coverage": covered / n,
                "lower": lower,
                "upper": upper,
                "stands_out": finding.stands_out,
                "p_value": finding.p_value,
            }
        )
    return rows
