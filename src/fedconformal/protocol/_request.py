"""What a plan asks of a site: described, and allowed by the site, before anything is computed."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from fedconformal._text import count, quoted
from fedconformal.documents import Plan, check_site_name
from fedconformal.messages import of
from fedconformal.privacy import exact_text
from fedconformal.protocol._checks import check_plan
from fedconformal.protocol._policy import PolicyError, SitePolicy

Sizes = Mapping[str | None, int]
"""Number of scores of a site in each group, under None where there are no groups."""


@dataclass(frozen=True)
class Request:
    """What a plan asks of one site.

    Attributes
    ----------
    sizes : mapping
        The groups that are answered for, each with the site's number of scores there; under None where there
        are no groups.
    discloses : mapping
        What leaves for each of them, in words.
    held_back : tuple of str
        Groups for which nothing is sent, as the site has too few cases of them.
    numbers : int
        Number of numbers that leave, other than the sizes.
    epsilon : Fraction or None
        Privacy loss of the answer, now or when it was first given; None if it is exact.
    left : Fraction or None
        Rest of the budget before it, where a ledger was given for a private plan.
    is_repeated : bool
        True if the ledger holds this answer already: it is then given again, at no cost.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(n_sites=5, n_points=40, numbers=3)
    >>> fc.protocol.prepare(plan, range(40), site="A").request.numbers
    3
    """

    sizes: Sizes
    discloses: Mapping[str | None, str]
    held_back: tuple[str, ...]
    numbers: int
    epsilon: Fraction | None
    left: Fraction | None = None
    is_repeated: bool = False

    @property
    def n(self) -> int:
        """Number of scores of the site in the groups that are answered for."""
        return sum(self.sizes.values())

    @property
    def sentence(self) -> str:
        """Everything that leaves and what it costs, for the data owner."""
        if None in self.discloses:
            asked = f"This plan asks for {self.discloses[None]}."
        else:
            listed = [f"{quoted([group or ''])}: {what}" for group, what in self.discloses.items()]
            shown = "; ".join(listed[:5]) + ("; ..." if len(listed) > 5 else "")
            asked = f"This plan asks for the sizes of {count(len(listed), 'group')}, and for {shown}."
        if self.epsilon is not None:
            asked += f" {self._cost}"
        if self.held_back:
            asked += f" Nothing is sent for {quoted(self.held_back)}: you have too few of these cases."
        return asked

    @property
    def _cost(self) -> str:
        if self.is_repeated:
            return "It costs nothing: the ledger holds the answer that was given before."
        cost = f"It costs epsilon {exact_text(self.epsilon or Fraction(0))}"
        return f"{cost}." if self.left is None else f"{cost} of the {exact_text(self.left)} that are left."


def make_request(plan: Plan, sizes: Sizes, *, site: str, policy: SitePolicy) -> Request:
    """Describe what an admitted plan asks of a site of these sizes; refuse what its policy does not allow.

    Parameters
    ----------
    plan : Plan
        The plan to answer.
    sizes : mapping
        Number of scores of the site in each group, under None where there are no groups.
    site : str
        The site's name.
    policy : SitePolicy
        The site's limits.

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
    held_back = tuple(group for group, n in sizes.items() if group is not None and n < policy.min_group)
    enough = {group: n for group, n in sizes.items() if group not in held_back}
    if not enough:
        raise PolicyError(
            f"nothing is sent: this site has fewer than {policy.min_group} cases of every group; "
            f"min_group = {max(sizes.values(), default=1)} would allow it"
        )
    numbers = _count_numbers(plan, enough, site)
    answered = {group: enough[group] for group in numbers}
    n = sum(answered.values())
    messages = {group: of(plan.by_group[group].message) for group in answered}
    costs = [messages[group].epsilon(plan.by_group[group]) for group in answered]
    exact = sum(
        each
        for each, cost, group in zip(numbers.values(), costs, numbers, strict=True)
        if cost is None and not messages[group].adds_up
    )
    policy.check_numbers(exact, n)
    # Groups are disjoint, so that a record costs the epsilon of its own group alone.
    epsilon = max((cost for cost in costs if cost is not None), default=None)
    if epsilon is not None:
        policy.check_epsilon(epsilon)
    words = {
        group: messages[group].discloses(plan.by_group[group], answered[group], site) for group in answered
    }
    return Request(answered, words, held_back, sum(numbers.values()), epsilon)


def _count_numbers(plan: Plan, sizes: Sizes, site: str) -> dict[str | None, int]:
    """Count the numbers for each group that is answered for; an infinite threshold is worth no epsilon."""
    names = plan.site_names or ()
    expected = {
        group: n
        for group, n in sizes.items()
        if group is None or site not in names or site in (plan.by_group[group].site_names or (site,))
    }
    if not expected:
        raise ValueError(f"the plan does not ask site {site!r} for any group that it has cases of")
    numbers, hopeless = {}, False
    for group, n in expected.items():
        design = plan.by_group[group]
        message = of(design.message)
        unreached = all(level.advice is not None for level in design.levels)
        if message.epsilon(design) is not None and unreached:
            hopeless = True
            continue
        try:
            asked = message.count_numbers(design, n, site)
        except ValueError as error:
            if group is None:
                raise
            raise ValueError(f"group {quoted([group])}: {error}") from None
        if asked:
            numbers[group] = asked
    if not numbers and hopeless:
        raise ValueError(
            "this private plan has an infinite threshold: answering it would spend epsilon for nothing"
        )
    if not numbers:
        raise ValueError(f"the plan does not ask site {site!r}: no answer of it could change the threshold")
    return numbers


def admit(plan: Plan, *, policy: SitePolicy, has_ledger: bool) -> None:
    """Refuse a plan that this site does not answer, before any score is read or computed.

    Parameters
    ----------
    plan : Plan
        The plan to answer.
    policy : SitePolicy
        The site's limits.
    has_ledger : bool
        True if a ledger or a data set was given to charge.

    Raises
    ------
    PolicyError
        If the policy does not allow it.
    ValueError
        If the plan makes no sense, has expired, or carries an invalid signature.

    Examples
    --------
    >>> import fedconformal as fc
    >>> fc.protocol.admit(fc.plan(n_sites=3, n_points=40), policy=fc.SitePolicy(), has_ledger=False)
    """
    check_current(plan, "answered")
    policy.check_plan(plan, has_ledger=has_ledger)


def check_current(plan: Plan, used: str) -> None:
    """Refuse a plan that makes no sense, has an invalid signature, or has expired."""
    if not isinstance(plan, Plan):
        raise TypeError(f"plan must be a Plan, got {type(plan).__name__}")
    check_plan(plan)
    if (plan.signature is not None or plan.signer is not None) and not plan.is_signed:
        raise ValueError("the signature of this plan is not that of the key it names")
    if plan.terms.has_expired():
        raise ValueError(f"the plan expired at {plan.terms.expires} and can no longer be {used}")
