"""Site part of the app."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedconformal.flower import add_conformal, read_calibration, sealed
from findings import task

app = ClientApp(mods=[sealed])


def patients(context: Context, part: str):
    """Simulated patients of this site; a real site reads its own file here."""
    return task.patients(context.node_config["partition-id"], part)


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round of FedAvg."""
    X, y = patients(context, "train")
    model = task.train(message.content["arrays"].to_numpy_ndarrays(), X, y)
    content = {
        "arrays": ArrayRecord(model),
        "metrics": MetricRecord({"num-examples": len(y)}),
    }
    return Message(RecordDict(content), reply_to=message)


def calibration_cases(parameters, context: Context):
    """Findings and their probabilities, of patients that are kept for the
    calibration.
    """
    X, y = patients(context, "calibration")
    return {"truth": y, "prediction": task.probabilities(parameters, X)}


add_conformal(app, calibration_cases)  # this line answers the server


@app.query("risk")
def risk(message: Message, context: Context) -> Message:
    """Mean share of the findings of new patients that are missed, and of those that are
    selected.
    """
    X, y = patients(context, "test")
    selected = read_calibration(message).predict_set(
        task.probabilities(message.content["arrays"].to_numpy_ndarrays(), X)
    )
    missed = (y & ~selected).sum(axis=1) / np.maximum(y.sum(axis=1), 1)
    metrics = {
        "site": context.node_config["partition-id"],
        "risk": float(missed.mean()),
    }
    metrics["selected"] = float(selected.sum(axis=1).mean())
    return Message(RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)
