"""
What privacy costs
==================

With differentially private reports the coverage varies by the noise too, and the
threshold leaves room for it: on average, intervals cover more than was asked for. How
much more depends on the privacy loss, here for ten sites of 500 cases.
"""

import numpy as np
from matplotlib import pyplot

import fedconformal as fc

# %% Scores are spread evenly between 0 and 1, so the coverage of a threshold is the
# threshold itself. The noise is simulated: at a site it is drawn from the system's
# entropy, and charged to a ledger first.

rng = np.random.default_rng(0)
sites = [f"site {i}" for i in range(1, 11)]
epsilons = [0.1, 0.2, 0.5, 1, 2, 5]
coverages = []
for epsilon in epsilons:
    privacy = fc.Privacy(epsilon=epsilon, bins=fc.Bins.uniform(0, 1, 400))
    plan = fc.plan(n_points=dict.fromkeys(sites, 500), privacy=privacy)
    rounds = [{site: rng.random(500) for site in sites} for _ in range(50)]
    coverages.append(
        [fc.privacy.simulate(plan, scores, rng).threshold for scores in rounds]
    )

# %% The promised mean holds whatever the scores are. Without noise rounds differ too,
# because their cases do.

figure, axes = pyplot.subplots(constrained_layout=True)
axes.plot(epsilons, np.mean(coverages, axis=1), "o-", label="mean of 50 rounds")
axes.fill_between(
    epsilons,
    np.min(coverages, axis=1),
    np.max(coverages, axis=1),
    alpha=0.2,
    label="range",
)
axes.axhline(0.9, linestyle=":", color="black", label="level 0.9")
axes.set(
    xscale="log",
    xlabel="privacy loss of each report",
    ylabel="coverage",
    xticks=epsilons,
)
axes.xaxis.set_major_formatter("{x:g}")
axes.legend()
