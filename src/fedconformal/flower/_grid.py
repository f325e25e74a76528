"""Flower's grid: connected nodes, and their replies as they arrive."""

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator

from flwr.app import Message, RecordDict
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid

log = logging.getLogger("flwr.fedconformal")

Nodes = dict[int, str]
"""Registered name of each connected node by its number; empty where it has none."""

Chosen = Callable[[NodeInfo], bool] | Collection[int | str]
"""Selection of nodes: a function of Flower's NodeInfo, or numbers or registered names."""

# Seconds by which a site's clock may be wrong: Flower drops replies that seem older than their question.
CLOCKS = 600.0

_PORTIONS = 8  # in which replies are fetched: a large one holds up few others, none if sites are few
_PATIENCE = 1.0  # seconds until a reply that is still being fetched goes on beside the others
# Seconds between two looks for replies, at first and at last; in between a share of the time so far.
_SHORTEST, _LONGEST, _SHARE = 0.1, 3.0, 0.03


def check_seconds(name: str, seconds: object, *, least: float) -> None:
    """Refuse a number of seconds that is too short or infinite."""
    if not (isinstance(seconds, int | float) and least <= seconds < math.inf):
        raise ValueError(f"{name} must be a finite number of seconds, at least {least:g}, got {seconds!r}")


def wait_for_nodes(grid: Grid, chosen: Chosen | None, *, wanted: int, wait: float) -> Nodes:
    """Wait until enough of the chosen nodes are connected, and return those that are."""
    is_chosen = _filter(chosen)
    if isinstance(chosen, Collection):
        wanted = min(wanted, len(chosen)) if wanted > 1 else len(chosen)
    deadline = time.monotonic() + wait
    while True:
        nodes = {node.node_id: node.name for node in grid.get_nodes() if is_chosen(node)}
        if len(nodes) >= wanted:
            return nodes
        if time.monotonic() >= deadline:
            log.warning("sites connected: %d, wanted: %d; the round starts now", len(nodes), wanted)
            return nodes
        time.sleep(min(0.5, max(0.0, deadline - time.monotonic())))


def _filter(chosen: Chosen | None) -> Callable[[NodeInfo], bool]:
    if chosen is None:
        return lambda node: True
    if callable(chosen):
        return chosen
    if isinstance(chosen, str) or not isinstance(chosen, Collection):
        raise TypeError(f"nodes must be a function of a node, or numbers or names of nodes, got {chosen!r}")
    numbers_and_names = frozenset(chosen)
    return lambda node: node.node_id in numbers_and_names or bool({node.name} & numbers_and_names - {""})


def ask(
    grid: Grid, nodes: Iterable[int], content: RecordDict, message_type: str, timeout: float
) -> Iterator[tuple[int | None, Message]]:
    """Send every node the same message, and yield each reply as it arrives with the node that it answers for.

    The timeout also ends the wait for a reply that has begun to arrive.
    """
    asked = [Message(content, node, message_type, ttl=timeout + CLOCKS) for node in nodes]
    if not asked:
        return
    sent = set(grid.push_messages(asked))
    # An error reply may name the server as its source: only the question identifies the node.
    questions = {message.metadata.message_id: message.metadata.dst_node_id for message in asked}
    for reply in _pull_replies(grid, sent & set(questions), time.monotonic() + timeout):
        yield questions.get(reply.metadata.reply_to_message_id), reply


def _pull_replies(grid: Grid, questions: set[str], deadline: float) -> Iterator[Message]:
    """Yield the replies to these questions until all are there or the time is over."""
    arrived: queue.SimpleQueue[tuple[set[str], Iterable[Message] | Exception]] = queue.SimpleQueue()
    unanswered, fetching, start = set(questions), set[str](), time.monotonic()

    def fetch(portion: set[str]) -> None:
        try:
            arrived.put((portion, grid.pull_messages(portion)))
        except Exception as error:
            arrived.put((portion, error))

    while unanswered and time.monotonic() < deadline:
        for portion in _portions(unanswered - fetching):
            fetching |= portion
            thread = threading.Thread(target=fetch, args=(portion,), daemon=True)
            thread.start()
            thread.join(max(0.0, min(_PATIENCE, deadline - time.monotonic())))
        while not arrived.empty():
            portion, replies = arrived.get()
            fetching -= portion
            if isinstance(replies, Exception):
                raise replies
            for reply in replies:
                unanswered.discard(reply.metadata.reply_to_message_id)
                yield reply
        if unanswered:
            now = time.monotonic()
            pause = min(max(_SHORTEST, _SHARE * (now - start)), _LONGEST)
            time.sleep(max(0.0, min(pause, deadline - now)))


def _portions(questions: set[str]) -> list[set[str]]:
    every, ordered = max(1, math.ceil(len(questions) / _PORTIONS)), sorted(questions)
    return [set(ordered[i : i + every]) for i in range(0, len(ordered), every)]
