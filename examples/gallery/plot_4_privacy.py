"""
What privacy costs
==================

With differentially private reports the threshold must leave room for noise, so that intervals cover more than was asked
for. How much more depends on the privacy loss, here for ten sites of 500 cases.
"""

import fedconformal as fc

# %%
# The guarantee holds whatever the scores are; what is drawn is the coverage to expect of evenly spread scores.

fc.plots.PrivacyDisplay.from_federation(
    n_sites=10, n_points=500, bins=fc.Bins.uniform(0, 1, 50), epsilons=[0.5, 1, 2, 5]
)
