"""What a plan asks of a site: said in words, and allowed by the site, before anything is computed."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from fedconformal._text import count, quoted
from fedconformal.documents import Plan, check_site_name
from fedconformal.privacy import exact_text
from fedconformal.protocol._policy import PolicyError, SitePolicy

Sizes = Mapping[str | None, int]
"""How many scores a site has in each group, under None where there are no groups."""


@dataclass(frozen=True)
class Request:
    """What a plan asks of one site.

    Attributes
    ----------
    sizes : mapping
        The groups that are answered for, each with how many scores the site has there; under None where
        there are no groups.
    held_back : tuple of str
        Groups for which nothing is sent, as the site has too few points of them.
    numbers : int
        How many scores leave, or how many bins.
    counted : int
        How many numbers these are for the site's policy: one at least for every group, whose size leaves.
    epsilon : Fraction or None
        What the answer costs, or cost when it was first given; None if it is exact.
    left : Fraction or None
        What is left of the budget before it, where a ledger was given for a private plan.
    is_repeated : bool
        Whether the ledger holds this answer already: it is then given again, at no cost.
    is_drawn : bool
        Whether the scores that leave are drawn at random, rather than chosen by their ranks.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=5, n_points=40, numbers=3)
    >>> fc.protocol.prepare(plan, range(40), site="A").request.numbers
    3
    """

    sizes: Sizes
    held_back: tuple[str, ...]
    numbers: int
    counted: int
    epsilon: Fraction | None
    left: Fraction | None = None
    is_repeated: bool = False
    is_drawn: bool = False

    @property
    def n(self) -> int:
        """How many scores the site has in the groups that are answered for."""
        return sum(self.sizes.values())

    @property
    def sentence(self) -> str:
        """All of it in plain words, for the data owner."""
        groups = "" if None in self.sizes else f", from {count(len(self.sizes), 'group')}"
        if self.epsilon is None:
            how_many = f"{self.numbers:,}" if self.numbers else "none"
            drawn = ", drawn at random" if self.is_drawn else ""
            asked = f"This plan asks for {how_many} of your {count(self.n, 'score')}{groups}{drawn}."
        else:
            drawn = "one bin" if self.numbers == 1 else f"{self.numbers:,} bins"
            asked = f"This plan asks for {drawn}{groups}, drawn at random, and {self._cost}."
        if self.held_back:
            asked += f" Nothing is sent for {quoted(self.held_back)}: you have too few of these cases."
        return asked

    @property
    def _cost(self) -> str:
        if self.is_repeated:
            return "costs nothing: the ledger holds the answer that was given before"
        cost = f"costs epsilon {exact_text(self.epsilon or Fraction(0))}"
        return cost if self.left is None else f"{cost} of the {exact_text(self.left)} that are left"


def request_of(plan: Plan, sizes: Sizes, *, site: str, policy: SitePolicy) -> Request:
    """What a plan that was admitted asks of a site of these sizes; refuses what its policy does not allow.

    Parameters
    ----------
    plan : Plan
        The plan to answer.
    sizes : mapping
        How many scores the site has in each group, under None where there are no groups.
    site : str
        The site's name.
    policy : SitePolicy
        What the site lets out.

    Returns
    -------
    Request
        Without what a ledger knows.

    Raises
    ------
    PolicyError
        If the policy does not allow it.
    ValueError
        If the plan does not ask this site.
    """
    check_site_name(site)
    held_back = tuple(label for label, n in sizes.items() if label is not None and n < policy.min_group)
    enough = {label: n for label, n in sizes.items() if label not in held_back}
    if not enough:
        raise PolicyError(
            f"nothing is sent: this site has fewer than {policy.min_group} points of every group; "
            f"min_group = {max(sizes.values(), default=1)} would allow it"
        )
    names = plan.site_names or ()  # groups for which the plan expects other sites are left out
    expected = {
        label: n
        for label, n in enough.items()
        if label is None or site not in names or site in (plan[label].site_names or (site,))
    }
    answered = _answered(plan, expected, site)
    numbers = {label: _n_numbers(plan, label, n, site) for label, n in answered.items()}
    # How many points a group has leaves too, even where no score does.
    counted, n_points = sum(max(1, number) for number in numbers.values()), sum(answered.values())
    what = f"{counted:,} of your {n_points:,} scores" if plan.privacy is None else count(counted, "bin")
    policy.check_numbers(f"this plan asks for {what}", counted, n_points)
    private_groups = plan.privacy is not None and plan.is_grouped
    cost = plan.cost(label or "" for label in answered) if private_groups else plan.epsilon
    if cost is not None:
        policy.check_epsilon(cost)
    is_drawn = any(part.cases is not None for part in plan.parts)
    return Request(answered, held_back, sum(numbers.values()), counted, cost, is_drawn=is_drawn)


def admit(plan: Plan, *, policy: SitePolicy, has_ledger: bool) -> None:
    """Refuse a plan that this site does not answer, before any score is read or computed.

    Parameters
    ----------
    plan : Plan
        The plan to answer.
    policy : SitePolicy
        What the site lets out.
    has_ledger : bool
        Whether a ledger or a data set was given to charge.

    Raises
    ------
    PolicyError
        If the policy does not allow it.
    ValueError
        If the plan is only a part of one, has expired, or carries a signature that is none.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.protocol.admit(fc.plan(n_sites=3, n_points=40), policy=fc.SitePolicy(), has_ledger=False)
    """
    check_whole(plan)
    if plan.has_expired():
        raise ValueError(f"this plan expired at {plan.expires}: it is not answered any more")
    policy.check_plan(plan, has_ledger=has_ledger)


def check_whole(plan: Plan) -> None:
    """Refuse one group of a plan, and a plan whose signature is not that of the key it names."""
    if plan.answered_digest != plan.digest:
        raise ValueError("this is one group of a plan: the whole plan is answered, and calibrated")
    if (plan.signature is not None or plan.signer is not None) and not plan.is_signed:
        raise ValueError("the signature of this plan is not that of the key it names")


def of_group(plan: Plan, label: str | None) -> Plan:
    """The plan of a group; the plan itself where there are none."""
    return plan if label is None else plan[label]


def ranks_of(plan: Plan, label: str | None, n: int, site: str) -> tuple[tuple[int, ...], ...]:
    """The plan's ranks for this site; refuses a site or a size that the plan does not expect."""
    try:
        return of_group(plan, label).ranks_for(n, site=site)
    except ValueError as error:
        if label is None:
            raise
        raise ValueError(f"group {quoted([label])}: {error}") from None


def _answered(plan: Plan, sizes: Sizes, site: str) -> Sizes:
    """The groups that are answered for: an infinite threshold is not worth any epsilon."""
    if not sizes:
        raise ValueError(f"the plan does not ask site {site!r} for any group that it has points of")
    if plan.privacy is None:
        asked = {label: n for label, n in sizes.items() if any(ranks_of(plan, label, n, site))}
        if not asked:
            raise ValueError(
                f"the plan does not ask site {site!r}: no answer of it could change the threshold"
            )
        return asked
    for label, n in sizes.items():
        if label is None or label in plan.to_answer:
            ranks_of(plan, label, n, site)  # a wrong size or site is refused before it is charged
    if plan.is_grouped:
        served: Sizes = {label: n for label, n in sizes.items() if label in plan.to_answer}
        if served:
            return served
        raise ValueError(
            "no group of this site has a finite threshold: answering would spend epsilon for nothing"
        )
    if not plan.feasible:
        raise ValueError(
            "this private plan has an infinite threshold: answering it would spend epsilon for nothing"
        )
    return sizes


def _n_numbers(plan: Plan, label: str | None, n: int, site: str) -> int:
    """How many numbers leave for a group: different scores, as levels may share one; or bins."""
    ranks = ranks_of(plan, label, n, site)
    if plan.privacy is not None:
        return len(ranks)
    return len({rank for each in ranks for rank in each if rank <= n})
