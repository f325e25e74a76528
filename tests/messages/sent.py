"""Answers to plans without files and ledgers, and designs that somebody has changed."""

import fedconformal as fc
from fedconformal.documents import CurvePayload, SiteKind
from fedconformal.messages import Answer, of

OPEN_HANDED = fc.SitePolicy.unlimited()


def answer_all(plan, scores, *, policy=OPEN_HANDED, **options):
    """The reports of sites with these scores, by name."""
    return [
        fc.report(plan, own, site=site, policy=policy, **options)
        for site, own in scores.items()
    ]


def calibrate(plan, scores, **options):
    return fc.calibrate(plan, answer_all(plan, scores, **options))


def names(n):
    return [f"site {i:02}" for i in range(n)]


def change(plan, place=0, *, message=(), level=(), **design):
    """The first design of a plan with other fields; of its message, and of one of its
    levels.
    """
    old = plan.designs[0]
    levels = list(old.levels)
    levels[place] = levels[place].model_copy(update=dict(level))
    data = old.message.model_copy(update=dict(message))
    return old.model_copy(update={"message": data, "levels": tuple(levels), **design})


def check(design):
    of(design.message).check(design)


def combine(design, counts):
    """Thresholds from the counts of each site, in order."""
    kinds = [
        (i, kind) for i, kind in enumerate(design.kinds) for _ in range(kind.count)
    ]
    sites = tuple(
        SiteKind(count=1, n=kind.n, names=(name,), share=kind.share)
        for (_, kind), name in zip(kinds, names(len(counts)), strict=True)
    )
    message = of(design.message)
    solved = message.solve(design, sites, [place for place, _ in kinds])
    answers = {
        kind.names[0]: Answer(
            kind.names[0], kind.n, CurvePayload(counts=tuple(map(int, each)))
        )
        for kind, each in zip(sites, counts, strict=True)
    }
    return message.combine(solved, answers)
