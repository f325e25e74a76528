"""Site part of the app."""

from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from digits_torch import task
from fedconformal.flower import add_conformal, sealed

app = ClientApp(mods=[sealed])


def network(arrays: ArrayRecord):
    """The network with the weights that the server sent."""
    model = task.network()
    model.load_state_dict(arrays.to_torch_state_dict())
    return model


@app.train()
def train(message: Message, context: Context) -> Message:
    """One round of FedAvg."""
    (X, y), _, _ = task.load(context)
    model = network(message.content["arrays"])
    task.train(model, X, y, context.run_config["epochs"])
    content = {
        "arrays": ArrayRecord(model.state_dict()),
        "metrics": MetricRecord({"num-examples": len(y)}),
    }
    return Message(RecordDict(content), reply_to=message)


def calibration_cases(arrays: ArrayRecord, context: Context):
    """Digits and probabilities of the images that are kept for the calibration; the
    plan names the score.
    """
    _, (X, y), _ = task.load(context)
    return {"truth": y.numpy(), "prediction": task.probabilities(network(arrays), X)}


add_conformal(app, calibration_cases)  # this line answers the plan with one report
