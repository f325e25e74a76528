"""The server's side: ask every connected site once, and calibrate on who answered."""

import logging
import math
import time
from collections.abc import Iterable
from typing import Literal

from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid

from fedconformal import _validation
from fedconformal.documents import Calibration, Plan
from fedconformal.flower import _messages
from fedconformal.flower._messages import ACTION
from fedconformal.rounds import Collection

log = logging.getLogger("flwr.fedconformal")

CLOCKS = 600.0
"""Seconds by which a site's clock may be wrong: Flower drops replies that seem older than their question."""

Nodes = dict[int, str]
"""Number of a connected node -> the name that it was registered under, or an empty one."""


def calibrate(
    grid: Grid,
    plan: Plan,
    arrays: ArrayRecord | None = None,
    timeout: float = 300.0,
    *,
    wait: float = 10.0,
    on_refused: Literal["raise", "skip"] = "skip",
) -> Calibration:
    """Ask every connected site for its report, once, and turn the reports into a Calibration.

    A site that fails, hangs or is not there counts as missing, and the server's rank is solved anew for the
    sites that answered. The result is the same, byte for byte, as ``fedconformal.calibrate`` gives for the
    same reports.

    Parameters
    ----------
    grid : Grid
        Flower's grid, as the ServerApp's main function gets it.
    plan : Plan
        The plan to be answered.
    arrays : ArrayRecord, optional
        The model, for sites that need it to compute their scores.
    timeout : float
        Seconds until a site that has not answered counts as missing. In a deployment Flower looks for replies
        every three seconds: allow ten at least.
    wait : float
        Seconds to wait for as many sites as the plan has to connect; then the round starts with those that
        are there.
    on_refused : {"skip", "raise"}
        Whether reports that do not answer the plan are left out and listed in the calibration, or raise
        RefusedReportsError.

    Returns
    -------
    Calibration
        The thresholds, and who is missing.
    """
    for name, seconds, least in (("timeout", timeout, 1e-3), ("wait", wait, 0)):
        if not (isinstance(seconds, int | float) and least <= seconds < math.inf):
            raise ValueError(
                f"{name} must be a finite number of seconds, at least {least:g}, got {seconds!r}"
            )
    _validation.choice("on_refused", on_refused, ("raise", "skip"))
    nodes = _connected(grid, plan, wait)
    collection = Collection(plan, nodes, engine="Flower", log=log)
    content = _messages.question(plan, arrays)
    asked = [Message(content, node, f"query.{ACTION}", ttl=timeout + CLOCKS) for node in nodes]
    replies = grid.send_and_receive(asked, timeout=float(timeout)) if asked else ()
    _collect(collection, replies, asked)
    return collection.calibrate(timeout=timeout, on_refused=on_refused)


def _connected(grid: Grid, plan: Plan, wait: float) -> Nodes:
    """The nodes that are there, after waiting a while for as many as the plan has."""
    wanted = plan.n_sites or 1
    deadline = time.monotonic() + wait
    while True:
        nodes = {node.node_id: node.name for node in grid.get_nodes()}
        if len(nodes) >= wanted:
            return nodes
        if time.monotonic() >= deadline:
            log.warning("sites connected: %d, wanted: %d; the round starts now", len(nodes), wanted)
            return nodes
        time.sleep(min(0.5, max(0.0, deadline - time.monotonic())))


def _collect(collection: Collection[int], replies: Iterable[Message], asked: list[Message]) -> None:
    """Hand every reply to the collection, with the node whose question it answers."""
    # An error reply may name the server as its source: only the question tells whose reply it is.
    questions = {message.metadata.message_id: message.metadata.dst_node_id for message in asked}
    for reply in replies:
        node = questions.get(reply.metadata.reply_to_message_id)
        if reply.has_error():
            collection.fail(node, reply.error.code)
        else:
            collection.receive(node, _messages.report_in(reply))
