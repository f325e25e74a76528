"""
A threshold for each true class
===============================

Some hospitals see mostly sick patients, others mostly healthy ones. One threshold for
all covers 90 % of all cases and fewer of the class that the model finds hard; a
threshold for each true class covers both, whatever the mix.
"""

# %%
# Three hospitals, and a model that finds the sick harder to tell.

import numpy as np
from matplotlib import pyplot

import fedconformal as fc

rng = np.random.default_rng(7)
counts = {
    "sick": {"north": 60, "south": 90, "west": 240},
    "well": {"north": 340, "south": 310, "west": 60},
}
sites = ("north", "south", "west")
lac = fc.scores.LAC()


def cases(n_sick, n_well):
    """Probabilities that the model gives, and the truth."""
    truth = np.repeat(["sick", "well"], [n_sick, n_well])
    odds = rng.normal(size=truth.size) + np.where(truth == "sick", 0.3, -1.5)
    chance = 1 / (1 + np.exp(-odds))
    return np.column_stack([chance, 1 - chance]), truth


# %% One threshold for all, and one for each true class: the class of a calibration case
# is its group.

single = fc.plan(
    n_points={site: counts["sick"][site] + counts["well"][site] for site in sites},
    score="lac",
)
by_class = fc.plan(groups=counts, group_by="class", score="lac")


def calibrations():
    """Both, from the same cases."""
    single_reports, class_reports = [], []
    for site in sites:
        chances, truth = cases(counts["sick"][site], counts["well"][site])
        scores = lac.score((truth == "well").astype(int), chances)
        single_reports.append(fc.report(single, scores, site=site))
        class_reports.append(fc.report(by_class, scores, groups=truth, site=site))
    return fc.calibrate(single, single_reports), fc.calibrate(by_class, class_reports)


# %% Fifty calibrations, each looked at on the same new cases, half of them sick. The
# class of a new case need not be known.

chances, truth = cases(5000, 5000)
found = np.array(
    [
        [
            [sets[truth == label, k].mean() for k, label in enumerate(counts)]
            for sets in predicted
        ]
        for predicted in (
            [each.predict_set(chances) for each in calibrations()] for _ in range(50)
        )
    ]
)  # calibration, method, class
figure, axes = pyplot.subplots(constrained_layout=True)
for method, (name, marker) in enumerate(
    [("one threshold", "s"), ("one for each class", "o")]
):
    mean = found[:, method].mean(axis=0)
    low, high = np.quantile(found[:, method], [0.05, 0.95], axis=0)
    place = np.arange(2) + (method - 0.5) * 0.2
    axes.errorbar(
        place, mean, yerr=[mean - low, high - mean], fmt=marker, capsize=5, label=name
    )
axes.axhline(0.9, color="black", linestyle=":", label="level")
axes.set(
    xticks=[0, 1],
    xticklabels=list(counts),
    ylabel="coverage of the class",
    xlim=(-0.5, 1.5),
)
axes.legend(loc="lower right")
figure.suptitle("Mean over calibrations, and nine tenths of them")
