"""What a group is called on a certificate: after its label, its class, its site."""

from fedconformal._text import listed
from fedconformal.documents import Plan


def group_words(plan: Plan, label: str) -> str:
    """Return what one group is: "class “sick” at the site “north”".

    Parameters
    ----------
    plan : Plan
        The whole plan.
    label : str
        The group.

    Returns
    -------
    str
        After "the", or as the beginning of a sentence.
    """
    site, labels = plan.grouping.parts_of(label)
    where = "" if site is None else f"site “{site}”"
    if not labels:
        return where
    named = listed([f"“{each}”" for each in labels])
    kind = ("class", "classes") if plan.grouping.by_class else ("group", "groups")
    of = f"{kind[0]} {named}" if len(labels) == 1 else f"{kind[1]} {named} taken together"
    return f"{of} at the {where}" if where else of
