"""The server's side: ask every connected site once, and calibrate on who answered."""

from pathlib import Path
from typing import Literal

from flwr.app import ArrayRecord
from flwr.serverapp import Grid

from fedconformal import _validation
from fedconformal.documents import Calibration, Plan
from fedconformal.flower import _messages
from fedconformal.flower._grid import Chosen, ask, check_seconds, connected, log
from fedconformal.flower._messages import ACTION
from fedconformal.rounds import Collection, Folder


def calibrate(
    grid: Grid,
    plan: Plan,
    arrays: ArrayRecord | None = None,
    timeout: float = 300.0,
    *,
    reports: str | Path | None = None,
    nodes: Chosen | None = None,
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
        Seconds until a site that has not answered counts as missing. In a deployment SuperNodes look for
        questions, and this function for replies, every three seconds: allow ten at least.
    reports : str or Path, optional
        A folder in which reports are kept as they arrive. Given again, after whatever happened, it goes on
        from there: who has answered this plan is not asked, or charged, again, and nobody is once the round
        is complete.
    nodes : callable, or collection of int or str, optional
        Which nodes to ask: a function of Flower's NodeInfo (``node_id``, ``name``, ...), or numbers or
        registered names; all by default.
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
    check_seconds("timeout", timeout, least=1e-3)
    check_seconds("wait", wait, least=0)
    _validation.choice("on_refused", on_refused, ("raise", "skip"))
    folder = None if reports is None else Folder(reports, plan)
    there = {}
    if folder is None or not folder.is_complete:
        there = connected(grid, nodes, wanted=plan.n_sites or 1, wait=wait)
    collection = Collection(plan, there, engine="Flower", log=log, folder=folder)
    content = _messages.question(plan, arrays)
    for node, reply in ask(grid, collection.to_ask, content, ACTION, timeout):
        if reply.has_error():
            collection.fail(node, reply.error.code)
        else:
            collection.receive(node, _messages.report_in(reply))
    return collection.calibrate(timeout=timeout, on_refused=on_refused)
