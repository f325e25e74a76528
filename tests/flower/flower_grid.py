"""A grid of Flower without any process: every node is a ClientApp that is called here
and now.
"""

import threading
from types import SimpleNamespace

from flwr.app import Context, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity


class LocalGrid(Grid):
    """Every node is a ClientApp with its configuration; replies come in reverse order.

    Before a reply is fetched, the function that ``before`` has for its node is called;
    ``config`` is the run's configuration, and ``configs`` has others for some nodes.
    """

    def __init__(
        self,
        nodes,
        names=None,
        tamper=lambda replies: replies,
        before=None,
        config=None,
        configs=None,
    ):
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.nodes = dict(enumerate(nodes, start=100))
        self.names = names or {}
        self.tamper = tamper
        self.before, self.config = before or {}, config or {}
        self.configs = configs or {}
        self.sent, self.replies = [], []
        self.lock = threading.Lock()

    def set_run(self, run):
        raise NotImplementedError

    run = SimpleNamespace(run_id=1, fab_id="", fab_version="", fab_hash="")

    def create_message(self, *_, **__):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        """As apps with a server_fn use it, from many threads."""
        with self.lock:
            return self.pull_messages(self.push_messages(messages))

    def get_node_ids(self):
        return list(self.nodes)

    def get_nodes(self):
        return [
            NodeInfo(node_id=node, name=self.names.get(node)) for node in self.nodes
        ]

    def push_messages(self, messages):
        replies, before = [], len(self.sent)
        for number, message in enumerate(messages, start=before):
            message.metadata.__dict__["_message_id"] = f"message {number}"
            self.sent.append(message)
            app, config = self.nodes[message.metadata.dst_node_id]
            node = message.metadata.dst_node_id
            run_config = self.configs.get(node, self.config)
            context = Context(1, node, config, RecordDict(), run_config)
            reply = app(message, context)
            if reply is not None:
                replies.append(reply)
        self.replies += self.tamper(replies[::-1])
        return [message.metadata.message_id for message in self.sent[before:]]

    def pull_messages(self, message_ids):
        """What answers these questions; what answers none comes with whichever is
        pulled first.
        """
        asked = {message.metadata.message_id: message for message in self.sent}
        for message_id in message_ids:
            self.before.get(asked[message_id].metadata.dst_node_id, bool)()
        found, rest = [], []
        for reply in self.replies:
            question = reply.metadata.reply_to_message_id
            (
                found if question in message_ids or question not in asked else rest
            ).append(reply)
        self.replies = rest
        return found
