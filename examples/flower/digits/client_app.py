"""What runs at a site."""

from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits import task
from fedconformal.flower import add_conformal, sealed, site_name
from fedconformal.scores import LAC

app = ClientApp(mods=[sealed])


def data(context: Context):
    """The site's own file, which its configuration names; in a simulation a share of public digits."""
    given = context.node_config
    if "data" in given:
        return task.split(*task.read(given["data"]))
    return task.split(*task.share(given["partition-id"], given["num-partitions"]))


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round of FedAvg."""
    (X, y), _, _ = data(context)
    model = task.train(message.content["arrays"].to_numpy_ndarrays(), X, y)
    content = {"arrays": ArrayRecord(model), "metrics": MetricRecord({"num-examples": len(y)})}
    return Message(RecordDict(content), reply_to=message)


def calibration_scores(arrays: ArrayRecord, context: Context):
    """How badly the model fits each calibration image: 1 - the probability of its true digit."""
    _, (X, y), _ = data(context)
    return LAC().score(y, task.probabilities(arrays.to_numpy_ndarrays(), X))


add_conformal(app, calibration_scores)  # this line answers the plan with one report


@app.query("coverage")
def coverage(message: Message, context: Context) -> Message:
    """On images that were never used: how often is the true digit in the prediction set, how large is it?"""
    _, _, (X, y) = data(context)
    predicted = task.probabilities(message.content["arrays"].to_numpy_ndarrays(), X)
    sets = LAC().set(predicted, message.content["metrics"]["threshold"])
    result = {"covered": int(sets[range(len(y)), y].sum()), "labels": int(sets.sum()), "images": len(y)}
    content = {"metrics": MetricRecord(result), "names": ConfigRecord({"site": site_name(context)})}
    return Message(RecordDict(content), reply_to=message)
