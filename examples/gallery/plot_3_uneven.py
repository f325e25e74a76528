"""
Uneven hospitals, and a second number
=====================================

Four hospitals of 120, 40, 377 and 88 cases. With one vote each they would be worse off
than the largest of them alone. Larger sites have more votes here, and a second or third
number per site comes close to pooling all cases.
"""

import numpy as np
from matplotlib import pyplot

import fedconformal as fc

sizes = {"north": 120, "south": 40, "west": 377, "east": 88}

# %% The root mean square distance of the coverage from the level, over that of pooled
# data.


def distance(law, level=0.9):
    """Return the typical distance of the coverage from the level."""
    return np.hypot(law.std(), law.mean() - level)


pooled = fc.plan(n_sites=1, n_points=sum(sizes.values())).law
alone = fc.plan(n_sites=1, n_points=max(sizes.values())).law
one_vote = fc.plan(n_points=sizes, local_ranks="paper").law
laws = {r: fc.plan(n_points=sizes, numbers=r).law for r in (1, 2, 3, 5, 9)}
ratios = [distance(law) / distance(pooled) for law in laws.values()]

# %%
# One number with weighted votes is already better than the largest hospital alone.

figure, axes = pyplot.subplots(constrained_layout=True)
axes.plot(list(laws), ratios, "o-", label="weighted votes")
axes.axhline(
    distance(one_vote) / distance(pooled),
    linestyle="-.",
    color="C1",
    label="one vote each",
)
axes.axhline(
    distance(alone) / distance(pooled),
    linestyle="--",
    color="C3",
    label="the largest site alone",
)
axes.axhline(1, linestyle=":", color="black", label="all cases in one place")
axes.set(
    xlabel="numbers that a site sends",
    ylabel="spread, as a multiple of pooling",
    xticks=list(laws),
)
axes.legend()
