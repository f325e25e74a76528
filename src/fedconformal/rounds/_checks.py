"""The server's side of a round of checks: what sites see of a calibration on new cases."""

import logging
from collections import defaultdict
from collections.abc import Mapping

from fedconformal import heterogeneity
from fedconformal.documents import Calibration, Check, Refusal
from fedconformal.heterogeneity import Assessment
from fedconformal.rounds._answers import Answers, Node
from fedconformal.rounds._packing import unpack_check


class CheckCollection(Answers[Node, Check]):
    """The checks of one calibration, as they come in.

    Parameters
    ----------
    calibration : Calibration
        What sites check; of one with groups, one group: ``calibration["child"]``.
    nodes : mapping
        As for `Collection`.
    engine : str
        What the engine is called.
    log : logging.Logger
        The server's log.

    Examples
    --------
    >>> import logging
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"A": range(40), "B": range(60)})
    >>> log = logging.getLogger("server")
    >>> checks = fc.rounds.CheckCollection(calibration, {1: "A"}, engine="a test", log=log)
    >>> checks.calibration == calibration
    True
    """

    what = "check"

    def __init__(
        self, calibration: Calibration, nodes: Mapping[Node, str], *, engine: str, log: logging.Logger
    ) -> None:
        super().__init__(nodes, engine=engine, log=log)
        self.calibration = calibration
        self._checks: dict[str, list[Check]] = defaultdict(list)
        self._refused: list[Refusal] = []

    def assess(self, *, timeout: float) -> Assessment:
        """Coverage site by site; what does not fit, or contradicts itself, is left out.

        Parameters
        ----------
        timeout : float
            How many seconds were waited, for the log.

        Returns
        -------
        Assessment
            What `fedconformal.heterogeneity.assess` makes of the checks that count.

        Raises
        ------
        ValueError
            If none counts.
        """
        counting = []
        for site, checks in sorted(self._checks.items()):
            if all(check == checks[0] for check in checks):
                counting.append(checks[0])
            else:
                reason = f"{len(checks)} different checks from this site: none of them counts"
                self._refuse(None, Refusal(source=site, reason=reason))
        self._tell(timeout, self._refused)
        if not counting:
            raise ValueError("0 sites sent a check that counts: the log says why")
        return heterogeneity.assess(self.calibration, counting)

    def _read(self, packed: object) -> Check:
        check = unpack_check(packed)
        heterogeneity.assess(self.calibration, [check])  # refuses what does not fit
        return check

    def _accept(self, node: Node, answer: Check) -> None:
        self._checks[answer.site].append(answer)

    def _refuse(self, node: Node | None, refusal: Refusal) -> None:
        self._refused.append(refusal)
