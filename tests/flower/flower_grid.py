"""A grid of Flower without any process: every node is a ClientApp that is called here and now."""

from flwr.app import Context, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity


class LocalGrid(Grid):
    """Every node is a ClientApp with its configuration; replies come in reverse order."""

    def __init__(self, nodes, names=None, tamper=lambda replies: replies):
        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
        self.nodes = dict(enumerate(nodes, start=100))
        self.names = names or {}
        self.tamper = tamper
        self.sent, self.replies = [], []

    def set_run(self, run):
        raise NotImplementedError

    run = property(lambda self: None)

    def create_message(self, *_, **__):
        raise NotImplementedError

    push_messages = pull_messages = create_message

    def get_node_ids(self):
        return list(self.nodes)

    def get_nodes(self):
        return [NodeInfo(node_id=node, name=self.names.get(node)) for node in self.nodes]

    def send_and_receive(self, messages, *, timeout=None):
        assert timeout is not None
        replies = []
        for number, message in enumerate(messages):
            message.metadata.__dict__["_message_id"] = f"message {number}"
            self.sent.append(message)
            app, config = self.nodes[message.metadata.dst_node_id]
            context = Context(1, message.metadata.dst_node_id, config, RecordDict(), {})
            reply = app(message, context)
            if reply is not None:
                replies.append(reply)
        self.replies = self.tamper(replies[::-1])
        return self.replies
