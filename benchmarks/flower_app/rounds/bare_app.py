"""Two ways to answer without the package: one float, all scores."""

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


def scores(context: Context):
    number = context.node_config["partition-id"]
    return np.random.default_rng(number).random(context.run_config["points"])


@app.query("floor")
def floor(message: Message, context: Context) -> Message:
    content = MetricRecord({"value": float(scores(context)[0])})
    return Message(RecordDict({"metrics": content}), reply_to=message)


@app.query("everything")
def everything(message: Message, context: Context) -> Message:
    return Message(
        RecordDict({"arrays": ArrayRecord([scores(context)])}), reply_to=message
    )
