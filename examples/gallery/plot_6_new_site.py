"""
A site that was not there
=========================

Sites differ: each has scores of its own scale. The usual promise is about sites that
are alike; a vendor wants one for the next site. With ``promise="new-site"`` and the
criterion ``conditional``, nine in ten new sites are covered at the level.
"""

import numpy as np
from matplotlib import pyplot

import fedconformal as fc

rng = np.random.default_rng(3)
m, n, level = 20, 100, 0.9


def site():
    """Scores of one site: the scale is the site's own."""
    scale = np.exp(0.3 * rng.standard_normal())
    return scale, scale * np.abs(rng.standard_normal(n))


def coverage(threshold, scale):
    """Coverage of a threshold at a site."""
    from scipy.special import erf

    return erf(threshold / scale / np.sqrt(2))


# %%
# Two plans for the same sites.

usual = fc.plan(n_sites=m, n_points=n)
new = fc.plan(
    n_sites=m, n_points=n, promise="new-site", criterion="conditional", delta=0.1
)
found = {"population": [], "new-site": []}
for _ in range(300):
    sites = [site()[1] for _ in range(m)]
    scale, _ = site()
    for name, plan in (("population", usual), ("new-site", new)):
        reports = [
            fc.report(plan, scores, site=f"s{i}") for i, scores in enumerate(sites)
        ]
        found[name].append(coverage(fc.calibrate(plan, reports).threshold, scale))

# %% Coverage at a new site, over 300 federations. The promise: at most one in ten below
# the level.

figure, axes = pyplot.subplots(constrained_layout=True)
bins = np.linspace(0.6, 1, 41)
for name, hatch in (("population", "//"), ("new-site", "")):
    below = np.mean(np.array(found[name]) < level)
    axes.hist(
        found[name],
        bins,
        alpha=0.6,
        hatch=hatch,
        label=f"{name}: {below:.0%} below the level",
    )
axes.axvline(level, linestyle=":", color="black")
axes.set(xlabel="coverage at a new site", ylabel="federations")
axes.legend(loc="upper left")
