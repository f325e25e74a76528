"""
Intervals in five lines
=======================

A ridge regression, eight sites, and intervals that contain the truth nine times in ten.
Every site reports one of its scores; the rows never meet.
"""

# %%
# The model was trained elsewhere. What is left lies at eight sites.

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV

import fedconformal as fc

X, y = load_diabetes(return_X_y=True)
site = np.random.default_rng(0).integers(8, size=len(y))
model = RidgeCV().fit(X[:150], y[:150])

# %%
# Calibrate on 200 rows, by site, and predict for the others.

conformal = fc.FederatedConformalRegressor(model, confidence_level=0.9)
conformal.conformalize(X[150:350], y[150:350], sites=site[150:350])
print(f"mean coverage {conformal.calibration_.law.mean():.3f}")

# %%
# Truths inside and outside of their intervals.

fc.plots.IntervalDisplay.from_estimator(conformal, X[350:], y[350:])
