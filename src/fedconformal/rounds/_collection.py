"""The server's side: which answers came from whom, and who is missing."""

import logging
from collections.abc import Hashable, Mapping
from typing import Generic, Literal, TypeVar

from fedconformal import protocol
from fedconformal._text import one_line
from fedconformal.documents import Calibration, DocumentError, Plan, Refusal, Report
from fedconformal.rounds._failures import Failure
from fedconformal.rounds._packing import longest_report, unpack_report

Node = TypeVar("Node", bound=Hashable)


class Collection(Generic[Node]):
    """The answers of one round, as they come in.

    Parameters
    ----------
    plan : Plan
        The plan that is answered.
    nodes : mapping
        The nodes that were asked, each with the name that the engine knows it by; empty where it knows none.
    engine : str
        What the engine is called.
    log : logging.Logger
        The server's log.
    """

    def __init__(self, plan: Plan, nodes: Mapping[Node, str], *, engine: str, log: logging.Logger) -> None:
        if plan.privacy is not None and plan.privacy.one_hot:
            raise ValueError(f"this plan asks for secure aggregation, which is not offered over {engine}")
        self.plan, self.nodes, self.engine, self._log = plan, nodes, engine, log
        self._open = dict.fromkeys(nodes)
        self._reports: list[Report] = []
        self._refused: list[Refusal] = []

    def receive(self, node: Node | None, packed: object) -> None:
        """Take in what a node sent, once.

        Parameters
        ----------
        node : hashable or None
            The node that was asked; None, or one that has answered, if nobody knows which question this
            answers.
        packed : object
            The report, as `pack_report` made it.
        """
        if node is None or node not in self._open:
            self._stray()
            return
        del self._open[node]
        try:
            self._reports.append(self._attributed(node, packed))
        except ValueError as error:
            self._refused.append(Refusal(source=self.who(node), reason=str(error)))

    def fail(self, node: Node | None, code: int) -> None:
        """Take in that a node sent a code instead of a report.

        Parameters
        ----------
        node : hashable or None
            As for ``receive``.
        code : int
            A `Failure`, or a code of the engine's own.
        """
        if node is None or node not in self._open:
            self._stray()
            return
        del self._open[node]
        meaning = Failure.meaning_of(code, self.engine)
        self._log.warning("%s sent no report: %s", self.who(node), meaning)

    def calibrate(self, *, timeout: float, on_refused: Literal["raise", "skip"]) -> Calibration:
        """The calibration from what came in; who has not answered is missing.

        Parameters
        ----------
        timeout : float
            How many seconds were waited, for the log.
        on_refused : {"raise", "skip"}
            As for `fedconformal.calibrate`.

        Returns
        -------
        Calibration
            The same, byte for byte, as `fedconformal.calibrate` gives for the same reports.
        """
        for node in self._open:
            self._log.warning("%s did not answer within %g s", self.who(node), timeout)
        calibration = protocol.calibrate(
            self.plan, self._reports, on_refused=on_refused, unreadable=self._refused
        )
        for refusal in calibration.refused:
            self._log.warning("refused: %s: %s", refusal.source, refusal.reason)
        return calibration

    def who(self, node: Node) -> str:
        """What a node is called in messages.

        Parameters
        ----------
        node : hashable
            A node that was asked.

        Returns
        -------
        str
            The name that the engine knows it by, else its number.
        """
        return one_line(self.nodes[node] or f"node {node}", 200)

    def _stray(self) -> None:
        self._refused.append(Refusal(source="unknown node", reason="answers no open question of this round"))

    def _attributed(self, node: Node, packed: object) -> Report:
        """The report of a node. One that is registered under a name speaks for this site alone.

        Where some nodes have registered names, one without could only be posing as one of them.
        """
        report = unpack_report(packed, longest=longest_report(self.plan))
        registered = self.nodes[node]
        if not registered and any(self.nodes.values()):
            raise DocumentError(
                f"reports as {report.site!r}, but is not registered under a name as others are"
            )
        if registered not in {"", report.site}:
            raise DocumentError(f"registered as {registered!r}, but reports as {report.site!r}")
        return report
