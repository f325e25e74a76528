"""Groups of cases: by a label that each case has, its true class, its site."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from fedconformal._text import count, quoted

GroupBy = Literal["site", "class", "label"]
"""Property by which cases are grouped."""

GROUPED_BY: tuple[tuple[GroupBy, ...], ...] = (
    ("class",),
    ("site",),
    ("site", "class"),
    ("site", "label"),
)
"""Properties by which cases are grouped, other than the label alone."""


def pair_label(site: str, label: str) -> str:
    """Return the group of the cases of one label at one site.

    Parameters
    ----------
    site, label : str
        The two.

    Returns
    -------
    str
        Both of them, the site first.

    Examples
    --------
    >>> from fedconformal.documents import pair_label
    >>> pair_label("north", "child")
    'north: child'
    """
    return f"{site}: {label}"


@dataclass(frozen=True)
class Grouping:
    """Map from the label and the site of a case to its group.

    Parameters
    ----------
    by : tuple of str
        What groups are made of.
    sites : mapping
        The only site of each group; empty where groups are not made of sites.
    groups : tuple of str
        The groups of the plan.

    Examples
    --------
    >>> import fedconformal as fc
    >>> plan = fc.plan(
    ...     groups={"child": {"A": 40}, "adult": {"A": 90, "B": 60}},
    ...     group_by=("site", "label"),
    ... )
    >>> plan.grouping.groups_of(["child", "adult"], "A")
    ['A: child', 'A: adult']
    """

    by: tuple[GroupBy, ...]
    sites: Mapping[str, str]
    groups: tuple[str, ...]

    @property
    def by_site(self) -> bool:
        """True if every group has one site, whose own threshold it is."""
        return "site" in self.by

    @property
    def by_class(self) -> bool:
        """True if the label of a point is its true class."""
        return "class" in self.by

    @property
    def by_label(self) -> bool:
        """True if points have a label that is known before the truth is."""
        return "label" in self.by

    @property
    def has_labels(self) -> bool:
        """True if a point's group depends on more than its site."""
        return self.by_class or self.by_label

    def counted(self, number: int) -> str:
        """Write a number of these groups with the word for them, as in "2 classes".

        Parameters
        ----------
        number : int
            The number.

        Returns
        -------
        str
        """
        if self.by_site:
            return count(number, "group" if self.has_labels else "site")
        return (
            count(number, "class", "classes")
            if self.by_class
            else count(number, "group")
        )

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels that points may have, in alphabetical order."""
        if not self.has_labels:
            return ()
        return tuple(sorted({self._without_site(group) for group in self.groups}))

    @property
    def absent(self) -> tuple[tuple[str, str], ...]:
        """Sites and labels that have no group together though both have others."""
        if not (self.by_site and self.has_labels):
            return ()
        there = {
            (self.sites[group], self._without_site(group)) for group in self.groups
        }
        sites, labels = ({pair[i] for pair in there} for i in (0, 1))
        return tuple(
            sorted({(site, label) for site in sites for label in labels} - there)
        )

    def parts_of(self, group: str) -> tuple[str | None, str | None]:
        """Return the site and the label of a group; None where it has none.

        Parameters
        ----------
        group : str
            A group of the plan.

        Returns
        -------
        site : str or None
        label : str or None
        """
        return self.sites.get(group), (
            self._without_site(group) if self.has_labels else None
        )

    def _without_site(self, group: str) -> str:
        return (
            group.removeprefix(pair_label(self.sites[group], ""))
            if self.by_site
            else group
        )

    def groups_of(self, labels: Sequence[str], site: str | None) -> list[str | None]:
        """Return the group of the cases of each label, all of one site.

        Parameters
        ----------
        labels : sequence of str
            The labels.
        site : str or None
            The site, where groups are made of sites.

        Returns
        -------
        list of str or None
            None where the plan has no such group.
        """
        if self.by_site:
            own = self.group_of_site(site)
            # "A: B" may be site A and label "B", or a site of that name: the plan says
            # whose it is.
            known, names = (
                {g for g in self.groups if self.sites[g] == own},
                [pair_label(own, l) for l in labels],
            )
        else:
            known, names = set(self.groups), list(labels)
        return [name if name in known else None for name in names]

    def group_of_site(self, site: str | None) -> str:
        """Return the group of a site, where groups are sites; refuse a site that has
        none.
        """
        known = sorted(set(self.sites.values()))
        if site is None:
            raise ValueError(
                "site must be given: every site has its own threshold, here"
                f" {quoted(known)}"
            )
        if site not in known:
            raise ValueError(
                f"site must be one of the plan's, {quoted(known)}, got {site!r}"
            )
        return site
