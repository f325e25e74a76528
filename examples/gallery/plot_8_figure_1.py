"""
The paper's figure 1
====================

The exact coverage of the paper's rule beside two upper bounds: that of a centralised
calibration with all m · n scores, and that of a single site. And the table of all pairs
of ranks from which the rule takes the smallest that is large enough.
"""

from matplotlib import pyplot

import fedconformal as fc

# %%
# For 5 and for 20 sites of 10 to 100 cases, at the level 0.9.

points = range(10, 101, 2)
figure, panels = pyplot.subplots(
    1, 2, sharey=True, figsize=(9, 3.6), constrained_layout=True
)
for axes, m in zip(panels, (5, 20), strict=True):
    exact = [
        fc.plan(n_sites=m, n_points=n, criterion="marginal").law.mean() for n in points
    ]
    axes.plot(points, exact, "-", label="FedCP-QQ, exact")
    axes.plot(
        points,
        [0.9 + 1 / (m * n + 1) for n in points],
        "--",
        label="centralised, at most",
    )
    axes.plot(
        points,
        [0.9 + 1 / (n + 1) for n in points],
        "-.",
        color="C3",
        label="one site, at most",
    )
    axes.set(title=f"{m} sites", xlabel="cases per site")
panels[0].set_ylabel("coverage")
panels[0].legend()

# %% All pairs for 5 sites of 20 cases, the border of the valid ones, and the paper's
# choice.

paper = fc.plan(n_sites=5, n_points=20, criterion="marginal")
print(paper.local_ranks[0], paper.server_rank, f"{paper.law.mean():.4f}")
fc.plots.CoverageTableDisplay.from_plan(paper)
