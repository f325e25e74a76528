"""
A threshold for each true class
===============================

Some hospitals see mostly sick patients, others mostly healthy ones. One threshold for all covers 90 % of all cases and
fewer of the class that the model finds hard; a threshold for each true class covers both, whatever the mix.
"""

# %%
# Three hospitals, and a model that finds the sick harder to tell.

import numpy as np
from matplotlib import pyplot

import fedconformal as fc

rng = np.random.default_rng(7)
counts = {"sick": {"north": 60, "south": 90, "west": 240}, "well": {"north": 340, "south": 310, "west": 60}}


def cases(n_sick, n_well):
    """Probabilities that the model gives, and the truth."""
    truth = np.repeat(["sick", "well"], [n_sick, n_well])
    odds = rng.normal(size=truth.size) + np.where(truth == "sick", 0.3, -1.5)
    chance = 1 / (1 + np.exp(-odds))
    return np.column_stack([chance, 1 - chance]), truth


patients = {site: cases(counts["sick"][site], counts["well"][site]) for site in ("north", "south", "west")}
lac = fc.scores.LAC()
scores = {
    site: lac.score((truth == "well").astype(int), chances) for site, (chances, truth) in patients.items()
}

# %%
# One threshold for all, and one for each true class: the class of a calibration case is its group.

single = fc.plan(n_points={site: len(each) for site, each in scores.items()}, score="lac")
asked = set(single.part.asked_names)
together = fc.calibrate(single, [fc.report(single, scores[s], site=s) for s in scores if s in asked])

by_class = fc.plan(groups=counts, group_by="class", score="lac")
classes = fc.calibrate(
    by_class, [fc.report(by_class, scores[s], groups=patients[s][1], site=s) for s in scores]
)

# %%
# New cases, half of them sick. The class of a new case is unknown, and need not be known.

chances, truth = cases(5000, 5000)
width = 0.35
figure, axes = pyplot.subplots(constrained_layout=True)
for place, (name, found, hatch) in enumerate(
    [("one threshold", together, "//"), ("one for each class", classes, "")]
):
    sets = found.predict_set(chances)
    covered = [sets[truth == label, k].mean() for k, label in enumerate(counts)]
    axes.bar(np.arange(2) + (place - 0.5) * width, covered, width, label=name, hatch=hatch, edgecolor="white")
axes.axhline(0.9, color="black", linestyle=":", label="level")
axes.set(xticks=[0, 1], xticklabels=list(counts), ylabel="coverage of the class", ylim=(0.5, 1))
axes.legend(loc="lower right")
figure.suptitle("Each class is covered, whatever the mix")
