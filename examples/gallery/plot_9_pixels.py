"""
Pixels that are missed
======================

Segmentation at four clinics with unlike scanners: on average at most 10 % of a tumour's
pixels may be missed. Images are drawn here: a disc each, and a model whose map of
probabilities is blurred and noisy, more at some clinics.
"""

import numpy as np
from matplotlib import pyplot

import fedconformal as fc

rng = np.random.default_rng(9)
clinics = {
    "A": (120, 0.5),
    "B": (80, 0.7),
    "C": (150, 0.6),
    "D": (100, 1.4),
}  # images, noise
risk, size = 0.1, 32
rows, columns = np.indices((size, size))


def images(n, noise):
    """Masks of tumours, and the model's probability of each pixel."""
    middle, radius = (
        rng.uniform(8, 24, size=(2, n, 1, 1)),
        rng.uniform(2, 7, size=(n, 1, 1)),
    )
    depth = radius - np.hypot(rows - middle[0], columns - middle[1])
    error = noise * (
        2 * rng.standard_normal((n, 1, 1)) + rng.standard_normal(depth.shape)
    )
    return depth > 0, 1 / (1 + np.exp(-(depth + error)))


# %%
# Every clinic scores its own images; a few scores leave it.

score = fc.scores.MissedPixels()
scores = {
    name: score.score(*images(n, noise), u=rng) for name, (n, noise) in clinics.items()
}
calibrations = {
    promise: fc.conformalize(scores, score=score, risk=risk, promise=promise)
    for promise in ("population", "mixture", "each-site")
}

# %%
# The risk on new images by clinic and promise, and the masks of one image at clinic D.

new = {name: images(1_000, noise) for name, (_, noise) in clinics.items()}
figure, (axes, picture) = pyplot.subplots(
    1, 2, figsize=(9, 4), width_ratios=(2, 1), constrained_layout=True
)
for i, (promise, calibration) in enumerate(calibrations.items()):
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
axes.axhline(risk, linestyle=":", color="black")
axes.set(
    ylabel="share of true pixels missed", xticks=range(4), xticklabels=list(clinics)
)
axes.legend(title="promise")
truth, p = (values[0] for values in new["D"])
layers = sum(
    calibration.predict_set(p[np.newaxis])[0].astype(int)
    for calibration in calibrations.values()
)
picture.imshow(layers, cmap="Blues")
picture.contour(truth, levels=[0.5], colors="black")
picture.set(
    title="selected by one, two or three\npromises; true outline", xticks=[], yticks=[]
)
