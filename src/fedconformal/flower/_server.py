"""The server's side: ask every connected site once, and calibrate on who answered."""

import logging
import math
import time
from collections.abc import Iterable
from typing import Literal

from flwr.app import ArrayRecord, Message
from flwr.serverapp import Grid

from fedconformal import _validation, server
from fedconformal.documents import Calibration, DocumentError, Plan, Refusal, Report
from fedconformal.flower import _messages
from fedconformal.flower._messages import ACTION, Failure

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
    grid : Flower's grid, as the ServerApp's main function gets it.
    plan : the plan to be answered.
    arrays : the model, for sites that need it to compute their scores.
    timeout : seconds until a site that has not answered counts as missing. In a deployment Flower looks for
        replies every three seconds: allow ten at least.
    wait : seconds to wait for as many sites as the plan has to connect; then the round starts with those
        that are there.
    on_refused : whether reports that do not answer the plan are left out and listed in the calibration
        (``"skip"``), or raise RefusedReportsError (``"raise"``).
    """
    for name, seconds, least in (("timeout", timeout, 1e-3), ("wait", wait, 0)):
        if not (isinstance(seconds, int | float) and least <= seconds < math.inf):
            raise ValueError(
                f"{name} must be a finite number of seconds, at least {least:g}, got {seconds!r}"
            )
    _validation.choice("on_refused", on_refused, ("raise", "skip"))
    if plan.privacy is not None and plan.privacy.one_hot:
        raise ValueError("this plan asks for secure aggregation, which is not offered over Flower")
    nodes = _connected(grid, plan.n_sites or 1, wait)
    content = _messages.question(plan, arrays)
    asked = [Message(content, node, f"query.{ACTION}", ttl=timeout + CLOCKS) for node in nodes]
    replies = list(grid.send_and_receive(asked, timeout=float(timeout))) if asked else []
    # An error reply may name the server as its source: only the question tells whose reply it is.
    open_questions = {message.metadata.message_id: message.metadata.dst_node_id for message in asked}
    reports, refused = _sort_out(replies, open_questions, nodes)
    for node in open_questions.values():
        log.warning("%s did not answer within %g s", _who(node, nodes), timeout)
    calibration = server.calibrate(plan, reports, on_refused=on_refused, unreadable=refused)
    for refusal in calibration.refused:
        log.warning("refused: %s: %s", refusal.source, refusal.reason)
    return calibration


def _connected(grid: Grid, wanted: int, wait: float) -> Nodes:
    """The nodes that are there, after waiting a while for as many as are wanted."""
    deadline = time.monotonic() + wait
    while True:
        nodes = {node.node_id: node.name for node in grid.get_nodes()}
        if len(nodes) >= wanted:
            return nodes
        if time.monotonic() >= deadline:
            log.warning("sites connected: %d, wanted: %d; the round starts now", len(nodes), wanted)
            return nodes
        time.sleep(min(0.5, max(0.0, deadline - time.monotonic())))


def _sort_out(
    replies: Iterable[Message], open_questions: dict[str, int], nodes: Nodes
) -> tuple[list[Report], list[Refusal]]:
    """Reports that can be read and come from where they say, and the others with the reason.

    What was answered is taken off the open questions.
    """
    reports: list[Report] = []
    refused: list[Refusal] = []
    for reply in replies:
        node = open_questions.pop(reply.metadata.reply_to_message_id, None)
        if node is None:
            refused.append(Refusal(source="unknown node", reason="answers no open question of this round"))
        elif reply.has_error():
            log.warning("%s sent no report: %s", _who(node, nodes), _meaning(reply.error.code))
        else:
            try:
                reports.append(_report(reply, nodes[node], any(nodes.values())))
            except ValueError as error:
                refused.append(Refusal(source=_who(node, nodes), reason=str(error)))
    return reports, refused


def _report(reply: Message, registered: str, others_are: bool) -> Report:
    """The report in a reply. A node that is registered under a name speaks for this site alone.

    Where some nodes have registered names, one without could only be posing as one of them.
    """
    report = _messages.report_in(reply)
    if others_are and not registered:
        raise DocumentError(f"reports as {report.site!r}, but is not registered under a name as others are")
    if registered not in {"", report.site}:
        raise DocumentError(f"registered as {registered!r}, but reports as {report.site!r}")
    return report


def _who(node: int, nodes: Nodes) -> str:
    return nodes[node] or f"node {node}"


def _meaning(code: int) -> str:
    """A code in words; whatever text came with it is not repeated."""
    return Failure(code).meaning if code in set(Failure) else f"Flower's error code {code}"
