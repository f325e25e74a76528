"""The server's side of a calibration round: reports in, who is missing, a calibration out."""

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from fedconformal import protocol
from fedconformal.documents import Calibration, Plan, Refusal, Report
from fedconformal.rounds._answers import Answers, Node
from fedconformal.rounds._folder import Folder
from fedconformal.rounds._packing import longest_report, unpack_report


class Collection(Answers[Node, Report]):
    """The reports of one round, as they come in.

    Parameters
    ----------
    plan : Plan
        The plan that is answered.
    nodes : mapping
        The nodes of the round, each with the name that the engine knows it by; empty where it knows none.
    engine : str
        What the engine is called.
    log : logging.Logger
        The server's log.
    folder : Folder, optional
        Where answers are kept as they arrive. Those that are there already count, and whose answer is there
        is not asked again.

    Examples
    --------
    >>> import logging
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_points={"A": 40, "B": 40})
    >>> nodes, log = {1: "node 1", 2: "node 2"}, logging.getLogger("server")
    >>> fc.rounds.Collection(plan, nodes, engine="mail", log=log).plan == plan
    True
    """

    what = "report"

    def __init__(
        self,
        plan: Plan,
        nodes: Mapping[Node, str],
        *,
        engine: str,
        log: logging.Logger,
        folder: Folder | None = None,
    ) -> None:
        super().__init__(nodes, engine=engine, log=log)
        if plan.privacy is not None and plan.privacy.one_hot:
            raise ValueError(
                f"this plan asks for secure aggregation, which is not offered over {engine}: a site could "
                "not tell whether its vector is added to others' or read alone; with a sum that the sites "
                "trust, report --one-hot and calibrate --histogram do it"
            )
        self.plan, self._folder = plan, folder
        self._reports, self._refused = ([], []) if folder is None else folder.read()
        self._before = tuple(self._reports)
        for node in self._answered_before():
            del self._open[node]
        if self._before:
            log.info("reports kept from before: %d; sites to ask: %d", len(self._before), len(self._open))

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
        self._tell(timeout, ())
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

    def _read(self, packed: object) -> Report:
        return unpack_report(packed, longest=longest_report(self.plan))

    def _accept(self, node: Node, answer: Report) -> None:
        if answer in self._before:  # known under another number before, and asked again
            return
        if self._folder is not None:
            self._folder.keep(str(node), self.nodes[node], answer)
        self._reports.append(answer)

    def _refuse(self, node: Node | None, refusal: Refusal) -> None:
        self._refused.append(refusal)
        if self._folder is not None:
            self._folder.keep_refusal(None if node is None else str(node), refusal)

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
