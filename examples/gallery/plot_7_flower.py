"""
A calibration round on Flower
=============================

Ten simulated sites train a classifier of digits with FedAvg, answer one plan, and say what they see of the threshold on images
that nobody calibrated on. The picture is drawn from a recorded run of ``flwr run examples/flower --stream --federation-config
num-supernodes=10``, which lies beside this example: :download:`flower_round.json`. ``make recording`` records it anew.
"""

# %%
# Two lines at the site, two at the server. At the site::
#
#     from fedconformal.flower import add_conformal
#     add_conformal(client_app, scores)
#
# and at the server, after training::
#
#     from fedconformal.flower import calibrate
#     calibration = calibrate(grid, plan, arrays)

import json

import numpy as np
from matplotlib import pyplot

import fedconformal as fc

with open("flower_round.json") as file:
    recorded = json.load(file)
calibration = fc.Calibration.from_json(json.dumps(recorded["calibration"]))
print(f"threshold {calibration.threshold:.4f} from {calibration.n_answers} sites")

# %%
# Anybody who has the calibration can count its claim again.

print(all(finding.holds for finding in fc.audit.verify(calibration)))

# %%
# What each site saw, with exact intervals, and the law of the coverage.

sites = [row["site"] for row in recorded["checks"]]
covered = [round(row["coverage"] * row["n"]) for row in recorded["checks"]]
sizes = [row["n"] for row in recorded["checks"]]
low, high = fc.metrics.clopper_pearson(covered, sizes)
share = np.array(covered) / sizes
figure, axes = pyplot.subplots(constrained_layout=True)
axes.errorbar(share, range(len(sites)), xerr=[share - low, high - share], fmt="o", capsize=3)
axes.axvline(calibration.plan.confidence_levels[0], linestyle=":", color="black", label="level")
axes.axvspan(
    *calibration.law.ppf([0.025, 0.975]), alpha=0.2, label="where the coverage lies in 95 % of calibrations"
)
axes.set(yticks=range(len(sites)), yticklabels=sites, xlabel="share of new images covered", xlim=(0.75, 1.01))
figure.legend(loc="outside upper center", ncols=2)
