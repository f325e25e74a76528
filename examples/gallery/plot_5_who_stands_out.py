"""
Who stands out?
===============

Twenty sites report one number each. Three of them have scores of another scale. Their
reports alone, beside scores that the coordinator has, tell which.
"""

import numpy as np
from matplotlib import pyplot

import fedconformal as fc
from fedconformal.monitoring import compare

rng = np.random.default_rng(7)
plan = fc.plan(n_sites=20, n_points=100)
factor = {3: 2.0, 7: 0.5, 11: 3.0}
reports = [
    fc.report(
        plan, factor.get(i, 1.0) * np.abs(rng.standard_normal(100)), site=f"site-{i}"
    )
    for i in range(20)
]

# %% The test is exact for every distribution of scores; a false alarm has a probability
# of at most 5 %.

own = np.abs(rng.standard_normal(500))
comparison = compare(plan, reports, reference=own)
print(comparison.sentence())

# %%
# The reports, and who is named.

odd = {site.site for site in comparison.odd}
figure, axes = pyplot.subplots(constrained_layout=True)
for report in reports:
    stands_out = report.site in odd
    axes.plot(
        report.payload.levels[0].values[0],
        int(report.site[5:]),
        "D" if stands_out else "o",
        color="C3" if stands_out else "C0",
    )
axes.axvline(
    np.quantile(own, 0.9),
    linestyle=":",
    color="black",
    label="90 % of the coordinator's own scores",
)
axes.plot([], [], "o", color="C0", label="a site like the others")
axes.plot([], [], "D", color="C3", label="named")
axes.set(xlabel="reported score", ylabel="site", yticks=range(0, 20, 2))
axes.legend()
