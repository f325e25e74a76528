"""The server's side: which answers came from whom, and who is missing."""

import logging
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Generic, Literal, TypeVar

from fedconformal import protocol
from fedconformal._text import one_line
from fedconformal.documents import Calibration, DocumentError, Plan, Refusal, Report
from fedconformal.rounds._failures import Failure
from fedconformal.rounds._folder import Folder
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
    folder : Folder, optional
        Where answers are kept as they arrive. Those that are there already count, and whose answer is there
        is not asked again.
    """

    def __init__(
        self,
        plan: Plan,
        nodes: Mapping[Node, str],
        *,
        engine: str,
        log: logging.Logger,
        folder: Folder | None = None,
    ) -> None:
        if plan.privacy is not None and plan.privacy.one_hot:
            raise ValueError(
                f"this plan asks for secure aggregation, which is not offered over {engine}: a site could "
                "not tell whether its vector is added to others' or read alone; with a sum that the sites "
                "trust, report --one-hot and calibrate --histogram do it"
            )
        self.plan, self.nodes, self.engine, self._log, self._folder = plan, nodes, engine, log, folder
        self._reports, self._refused = ([], []) if folder is None else folder.read()
        self._before = tuple(self._reports)
        answered = self._answered_before()
        self._open = {node: None for node in nodes if node not in answered}
        if self._before:
            log.info("reports kept from before: %d; sites to ask: %d", len(self._before), len(self._open))

    @property
    def to_ask(self) -> tuple[Node, ...]:
        """The nodes that have not answered yet."""
        return tuple(self._open)

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
            report = self._attributed(node, packed)
        except ValueError as error:
            self._refuse(node, Refusal(source=self.who(node), reason=str(error)))
            return
        if report in self._before:  # known under another number before, and asked again
            return
        if self._folder is not None:
            self._folder.keep(str(node), self.nodes[node], report)
        self._reports.append(report)

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
        try:
            calibration = protocol.calibrate(
                self.plan, self._reports, on_refused=on_refused, unreadable=self._refused
            )
        except protocol.RefusedReportsError:
            self._complete()
            raise
        self._complete()
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

    def _answered_before(self) -> set[Node]:
        """The nodes whose answers were kept before; under another number, by a name that one node has."""
        folder = self._folder
        if folder is None:
            return set()
        if folder.is_complete:
            return set(self.nodes)
        sites, bearers = {report.site for report in self._before}, Counter(self.nodes.values())
        return {
            node
            for node, name in self.nodes.items()
            if folder.has(str(node), name) or (name in sites and bearers[name] == 1)
        }

    def _complete(self) -> None:
        if self._folder is not None:
            self._folder.complete()

    def _refuse(self, node: Node | None, refusal: Refusal) -> None:
        self._refused.append(refusal)
        if self._folder is not None:
            self._folder.keep_refusal(None if node is None else str(node), refusal)

    def _stray(self) -> None:
        self._refuse(None, Refusal(source="unknown node", reason="answers no open question of this round"))

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
