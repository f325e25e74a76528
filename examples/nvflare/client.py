"""Training at a site, as for any recipe of FLARE."""

import argparse

import nvflare.client as flare
import task

parser = argparse.ArgumentParser()
parser.add_argument("--sites", type=int, required=True)
sites = parser.parse_args().sites

flare.init()
(X, y), _, _ = task.load(flare.get_site_name(), sites)
while flare.is_running():
    received = flare.receive()
    trained = task.train(received.params, X, y)
    flare.send(flare.FLModel(params=trained, meta={"NUM_STEPS_CURRENT_ROUND": len(y)}))
