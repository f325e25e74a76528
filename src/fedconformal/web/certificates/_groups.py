"""What a group is called on a certificate: after its label, its class, its site."""

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
    site, own = plan.grouping.parts_of(label)
    where = "" if site is None else f"site “{site}”"
    if own is None:
        return where
    of = f"{'class' if plan.grouping.by_class else 'group'} “{own}”"
    return f"{of} at the {where}" if where else of
