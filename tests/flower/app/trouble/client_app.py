"""A site does what the file beside its configuration says; in a simulation, what its
number says.
"""

import time
from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp

import fedconformal as fc
from fedconformal.flower import add_conformal

app = ClientApp()


def settings(context: Context) -> dict:
    given = context.node_config
    if ledgers := context.run_config["ledgers"]:
        return with_ledger(Path(ledgers) / f"site-{given['partition-id']}", given)
    if (
        "num-partitions" in given
    ):  # a simulation, in which the last two sites have one name
        return {
            "site": f"site-{min(given['partition-id'], given['num-partitions'] - 2)}"
        }
    own = {name: given[name] for name in ("signing-key", "policy") if name in given}
    return {"site": given.get("poses-as", given["site"]), **own}


def with_ledger(ledger: Path, given) -> dict:
    """As the guide has it."""
    if not ledger.exists():
        fc.Ledger.create(ledger).set_budget("cases", 2.0)
        fc.Ledger(ledger).set_budget("new cases", 2.0)
    private = {
        "ledger": str(ledger),
        "dataset": "cases",
        "check-dataset": "new cases",
        "check-epsilon": 1.0,
    }
    return {**given, **private}


def scores(context: Context):
    given = context.node_config
    behaviour = given.get("behaviour", "answers")
    if behaviour == "raises":
        raise RuntimeError(Path(given["secret"]).read_text())
    if behaviour == "hangs":
        Path(given["mark"]).touch()
        time.sleep(600)
    seed = given["partition-id"] if "partition-id" in given else given["seed"]
    return np.random.default_rng(seed).random(200)


def new_scores(context: Context):
    return np.random.default_rng(100 + context.node_config["partition-id"]).random(30)


add_conformal(app, scores, check_scores_fn=new_scores, settings=settings)
