"""Site part of the app."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits import task
from fedconformal.flower import add_conformal, read_calibration, sealed

app = ClientApp(mods=[sealed])


def data(context: Context):
    """The site's own file, which its configuration names; in a simulation a share of
    public digits.
    """
    given = context.node_config
    if "data" in given:
        return task.split(*task.read(given["data"]))
    return task.split(*task.share(given["partition-id"], given["num-partitions"]))


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round of FedAvg."""
    (X, y), _, _ = data(context)
    model = task.train(message.content["arrays"].to_numpy_ndarrays(), X, y)
    content = {
        "arrays": ArrayRecord(model),
        "metrics": MetricRecord({"num-examples": len(y)}),
    }
    return Message(RecordDict(content), reply_to=message)


def calibration_cases(parameters, context: Context):
    """Digits and probabilities of the images that are kept for the calibration; the
    plan names the score.
    """
    _, (X, y), _ = data(context)
    return {"truth": y, "prediction": task.probabilities(parameters, X)}


def new_cases(parameters, context: Context):
    """The same for images that were never used, on which the site checks the
    calibration.
    """
    _, _, (X, y) = data(context)
    return {"truth": y, "prediction": task.probabilities(parameters, X)}


add_conformal(
    app, calibration_cases, check_scores_fn=new_cases
)  # this line answers the server


@app.query("sets")
def sets(message: Message, context: Context) -> Message:
    """Prediction sets of new images, which stay here; their mean size leaves."""
    _, _, (X, _) = data(context)
    probabilities = task.probabilities(message.content["arrays"].to_numpy_ndarrays(), X)
    sets = read_calibration(message).predict_set(probabilities)
    content = {"metrics": MetricRecord({"set-size": float(sets.sum(axis=1).mean())})}
    return Message(RecordDict(content), reply_to=message)
