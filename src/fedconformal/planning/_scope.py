"""A promise under a grouping of cases: the condition on sites that stands beside it.

Where thresholds are made by site, each comes from the cases of one site and serves new
cases of that site alone. No promise then assumes anything about how sites compare, not
even one for a population. With groups by label or class, sites have to be alike within
a group only.
"""

from dataclasses import dataclass, field
from typing import Self

from fedconformal._text import USUAL_CLAIM
from fedconformal.documents import CheckQuestion, Design, Plan
from fedconformal.documents._plan import Grouping
from fedconformal.planning.criteria import Criterion
from fedconformal.planning.promises import PROMISES, Promise

_UNGROUPED = Grouping((), {}, ())


@dataclass(frozen=True)
class PromiseScope:
    """A promise under a grouping, in words: its condition on sites and its assumptions.

    Parameters
    ----------
    promise : Promise
        The promise.
    grouping : Grouping
        What the thresholds are made for; left out, for all cases together.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.planning import PromiseScope
    >>> sizes = {"A": 40, "B": 60}
    >>> plan = fc.plan(n_points=sizes)
    >>> PromiseScope.of(plan, plan.designs[0]).condition
    'if the model errs equally at every site'
    >>> plan = fc.plan(n_points=sizes, group_by="site")
    >>> PromiseScope.of(plan, plan.designs[0]).condition
    ''
    """

    promise: Promise
    grouping: Grouping = field(default=_UNGROUPED, hash=False)

    @classmethod
    def of(cls, plan: Plan | CheckQuestion, design: Design) -> Self:
        """Return the scope of a design of a plan.

        Parameters
        ----------
        plan : Plan or CheckQuestion
            Its grouping counts.
        design : Design
            Its promise counts.

        Returns
        -------
        PromiseScope
        """
        return cls(PROMISES[design.promise](), plan.grouping)

    @property
    def allows_differing_sites(self) -> bool:
        """True if the promise holds however the sites differ from each other."""
        return self.grouping.by_site or self.promise.bears_differing_sites

    @property
    def condition(self) -> str:
        """Condition on the sites, which ends the sentence of the promise; empty if
        sites may differ.
        """
        if self.allows_differing_sites:
            return ""
        if self.grouping.has_labels:
            kind = self.grouping.counted(1).removeprefix("1 ")
            return self.promise.condition_in_groups.format(kind=kind)
        return self.promise.condition

    @property
    def law_note(self) -> str:
        """Sentences about what the distribution of the coverage does not contain; empty
        if there is nothing to say, as for a threshold of one site.
        """
        if self.grouping.by_site:
            return ""
        return self.promise.law_note.format(condition=self.condition)

    def sentence(
        self,
        criterion: Criterion,
        level: float,
        delta: float | None,
        *,
        group: str = "",
        claim: str = USUAL_CLAIM,
    ) -> str:
        """Return the promise as a sentence, with its condition.

        Parameters
        ----------
        criterion : Criterion
            The criterion.
        level : float
            The confidence level.
        delta : float or None
            Probability of failure that is allowed, for a criterion that takes it.
        group : str
            Text that follows whose cases are meant.
        claim : str
            Promise of the score to these cases; see `Score`.

        Returns
        -------
        str
        """
        return self.promise.sentence(
            criterion,
            level,
            delta,
            group=group,
            claim=claim,
            condition=self.condition,
        )

    def assumed(self) -> str:
        """Return the assumptions of the promise, described.

        Returns
        -------
        str
        """
        if self.grouping.by_site:
            return self.promise.assumed_by_site(has_labels=self.grouping.has_labels)
        if self.grouping.has_labels:
            return self.promise.assumed_in_groups()
        return self.promise.assumed()

    def shortfall(self, where: str) -> str:
        """Explain why new cases may be covered too rarely; see `Promise.shortfall`.

        Parameters
        ----------
        where : str
            The place, as in ``"here"``.

        Returns
        -------
        str
        """
        if self.grouping.by_site:
            return self.promise.shortfall_of_own_threshold(where)
        return self.promise.shortfall(where)
