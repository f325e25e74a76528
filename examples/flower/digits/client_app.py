"""Site part of the app."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits import task
from fedconformal.flower import add_conformal, sealed
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


def scores(arrays: ArrayRecord, X, y):
    """Score each image by 1 - the probability of its true digit."""
    return LAC().score(y, task.probabilities(arrays.to_numpy_ndarrays(), X))


def calibration_scores(arrays: ArrayRecord, context: Context):
    """Scores of the images that are kept for the calibration."""
    return scores(arrays, *data(context)[1])


def new_scores(arrays: ArrayRecord, context: Context):
    """Scores of images that were never used, on which the site checks the calibration."""
    return scores(arrays, *data(context)[2])


add_conformal(app, calibration_scores, check_scores_fn=new_scores)  # this line answers the server
