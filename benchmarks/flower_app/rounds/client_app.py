"""Three ways to answer: one float, one report, all scores."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedconformal.flower import add_conformal

app = ClientApp()


def scores(context: Context):
    return np.random.default_rng(context.node_config["partition-id"]).random(context.run_config["points"])


add_conformal(app, scores)


@app.query("floor")
def floor(message: Message, context: Context) -> Message:
    content = MetricRecord({"value": float(scores(context)[0])})
    return Message(RecordDict({"metrics": content}), reply_to=message)


@app.query("everything")
def everything(message: Message, context: Context) -> Message:
    return Message(RecordDict({"arrays": ArrayRecord([scores(context)])}), reply_to=message)
