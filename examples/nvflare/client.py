"""What runs at a site, as for any recipe of FLARE: training, and at the end a look at the coverage."""

import argparse

import nvflare.client as flare
import task

from fedconformal.scores import LAC

parser = argparse.ArgumentParser()
parser.add_argument("--sites", type=int, required=True)
sites = parser.parse_args().sites

flare.init()
(X, y), _, (X_test, y_test) = task.load(flare.get_site_name(), sites)
while flare.is_running():
    received = flare.receive()
    if flare.is_evaluate():  # on images that were never used: is the true digit in the set, how large is it?
        sets = LAC().set(task.probabilities(received.params, X_test), received.meta["threshold"])
        covered = int(sets[range(len(y_test)), y_test].sum())
        seen = {"covered": covered, "digits": int(sets.sum()), "images": len(y_test)}
        flare.send(flare.FLModel(metrics=seen))
    else:
        trained = task.train(received.params, X, y)
        flare.send(flare.FLModel(params=trained, meta={"NUM_STEPS_CURRENT_ROUND": len(y)}))
