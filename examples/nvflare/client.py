"""Training at a site, as for any recipe of FLARE, and its answer to the calibration
round.
"""

import argparse

import nvflare.client as flare
import task

import fedconformal as fc

parser = argparse.ArgumentParser()
parser.add_argument("--sites", type=int, required=True)
sites = parser.parse_args().sites

flare.init()
(X, y), calibration, new = task.load(flare.get_site_name(), sites)


def predict(images, digits):
    """A function that predicts a set of images with the model of the server."""
    return lambda plan, model: {
        "truth": digits,
        "prediction": task.probabilities(model, images),
    }


while flare.is_running():
    received = flare.receive()
    if flare.is_train():
        trained = task.train(received.params, X, y)
        flare.send(
            flare.FLModel(params=trained, meta={"NUM_STEPS_CURRENT_ROUND": len(y)})
        )
    else:
        flare.send(fc.nvflare.answer(received, predict(*calibration), predict(*new)))
