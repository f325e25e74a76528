"""
Findings that are missed
========================

Four hospitals share a model that gives a probability to each of six findings. At most a
tenth of a patient's findings may be missed. The hospitals differ: at one of them the
model is worse. The data are drawn here.
"""

import numpy as np
from matplotlib import pyplot

import fedconformal as fc

rng = np.random.default_rng(7)
hospitals = {
    "north": (400, 1.6),
    "south": (250, 1.4),
    "west": (300, 1.2),
    "east": (350, 0.5),
}  # cases, quality
risk = 0.1


def patients(n, quality):
    """Which findings are there, and the model's probabilities of them."""
    truth = rng.random((n, 6)) < [0.5, 0.3, 0.3, 0.2, 0.1, 0.05]
    truth[:, 0] |= ~truth.any(axis=1)  # one finding at least
    return truth, 1 / (
        1 + np.exp(-(quality * (2 * truth - 1) + rng.standard_normal(truth.shape)))
    )


# %% A score for each past case, at its hospital: the smallest threshold at which a
# random share of its findings is found. Its miscoverage is the share that is missed.

score = fc.scores.MissedLabels()
scores = {
    name: score.score(*patients(n, quality), u=rng)
    for name, (n, quality) in hospitals.items()
}

# %% Three promises, each from a few numbers per hospital, and the risk on many new
# cases of each hospital. This is one calibration; the promises are about the mean over
# calibrations.

new = {name: patients(20_000, quality) for name, (_, quality) in hospitals.items()}
figure, axes = pyplot.subplots(constrained_layout=True)
for i, promise in enumerate(("population", "mixture", "each-site")):
    calibration = fc.conformalize(scores, score=score, risk=risk, promise=promise)
    missed = [
        score.losses(truth, p, [calibration.threshold]).mean()
        for truth, p in new.values()
    ]
    axes.bar(
        np.arange(4) + 0.27 * (i - 1),
        missed,
        0.25,
        hatch=("//", "..", "")[i],
        label=promise,
    )
    print(
        f"{promise}: threshold {calibration.threshold:.3f}, risk {np.mean(missed):.3f}"
        " on average"
    )
axes.axhline(risk, linestyle=":", color="black")
axes.set(
    ylabel="share of findings missed", xticks=range(4), xticklabels=list(hospitals)
)
axes.legend(title="promise")
