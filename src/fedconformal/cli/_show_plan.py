"""Tables and sentences that show a plan on a terminal."""

import math
from collections.abc import Sequence
from functools import partial

from fedconformal import baselines
from fedconformal._text import count, nearest_percent, plain_spaces
from fedconformal.cli._command import in_options
from fedconformal.cli._show import paragraph
from fedconformal.cli._show import table as any_table
from fedconformal.documents import Level, Plan
from fedconformal.planning import Cases, Design, Promise
from fedconformal.privacy import expected_cost

_MOST_SITES, _MOST_RANKS = 12, 6
table = partial(any_table, widest=80)


def show_plan(plan: Plan) -> None:
    """Show who is asked and for what, the coverage that follows, the promise, and what prevents it."""
    alone = list(plan.by_label.values()) if plan.is_grouped else [plan]
    if plan.is_grouped:
        _show_groups(plan)
    else:
        sites = "any number of sites" if plan.n_sites is None else count(plan.n_sites, "site")
        paragraph(f"{sites}, {_sizes(plan) or 'sizes come with the reports'}; {_goal(plan)}")
        _show_ranks(plan)
        _show_privacy(plan)
    group = f" of every {plan.grouping.counted(1).removeprefix('1 ')}" if plan.is_grouped else ""
    promised = [f"Promised: {_promised(each, level, group)}" for each in alone for level in _reached(each)]
    several = [each for each in alone if _reached(each) and not each.is_open and (each.n_sites or 0) > 1]
    notes = [note for each in several if (note := each.promise_object().law_note)]
    for sentence in dict.fromkeys([*promised, *notes]):
        paragraph(sentence)
    if plan.classes is not None:
        paragraph(f"classes, in the order of columns: {', '.join(plan.classes)}")
    for note in plan.notes:
        paragraph(in_options(note, {}))


def _reached(plan: Plan) -> list[float]:
    """Return the levels for which a finite threshold is possible."""
    return [level.confidence_level for level in plan.levels if level.advice is None]


def _promised(plan: Plan, level: float, group: str) -> str:
    promise = plan.promise_object()
    sentence = promise.sentence(plan.criterion_object(), level, plan.delta, group)
    alike = promise.condition if promise.whose == Promise.whose else ""
    return plain_spaces(f"{sentence[:-1]}, {alike}." if alike else sentence)


def _goal(plan: Plan) -> str:
    words = [
        f"criterion {plan.criterion_object().options(plan.delta)}",
        plan.promise_object().options(),
        f"up to {plan.max_faulty} faulty" if plan.max_faulty else "",
        f"bears {count(plan.part.max_missing, 'silent site')}" if plan.part.max_missing else "",
    ]
    return ", ".join(word for word in words if word)


def _sizes(plan: Plan) -> str | None:
    """Describe the sizes of the sites, where they are known."""
    if plan.blocks is None:
        return None
    low, high = min(block.n for block in plan.blocks), max(block.n for block in plan.blocks)
    return f"{count(low, 'point')} each" if low == high else f"{low:,} to {high:,} points"


# -- coverage ----------------------------------------------------------------------------------------------


def coverage_headers(design: Design) -> tuple[str, ...]:
    """Return the headers of `coverage_cells`, which say whether a coverage is exact or a bound."""
    if not design.has_law:
        return (f"coverage at least\n({design.promise.among.strip()})",)
    if design.sending.is_bound:
        known = "at least,\nunder noise"
    elif design.goal.max_faulty:
        known = "at least, with\nfaulty sites"
    elif design.promise.is_bound:
        known = f"at least,\n{design.promise.bound_of or design.promise.among.strip()}"
    else:
        known = "exact"
    return (f"coverage\n({known})", "std", "5 %\nquantile")


def coverage_cells(design: Design) -> list[str]:
    """Return mean, spread and 5 % quantile of the coverage, or the guarantee where there is no law.

    Where every set would hold everything there are dashes, which do not look like success.
    """
    if not design.is_finite:
        return ["-"] * len(coverage_headers(design))
    if design.has_law:
        law = design.law()
        return [f"{law.mean():.4f}", f"{law.std():.4f}", f"{law.ppf(0.05):.4f}"]
    guarantee = design.guarantee()
    if guarantee.mean is not None:
        return [_floor(guarantee.mean)]
    return [f"{_floor(guarantee.coverage or 0)}, at {_floor(guarantee.probability or 0)} of new sites"]


def _floor(value: float) -> str:
    return f"{math.floor(value * 10**4 + 1e-9) / 10**4:.4f}"


# -- without groups ----------------------------------------------------------------------------------------


def _show_ranks(plan: Plan) -> None:
    if plan.is_open:
        rows = [[f"{level.confidence_level:g}", _rule(plan, level)] for level in plan.levels]
        table(["level", "each site sends"], rows)
        return
    blocks, pools = plan.blocks or (), plan.promise_object().pools
    alike = all(len({block.ranks[i] for block in blocks}) == 1 for i in range(len(plan.levels)))
    ranks = (
        "each site\nsends" if plan.part.cases else "rank, at\nevery site" if alike else "ranks, of\nall sites"
    )
    table(
        ["level", ranks, "votes\nneeded", *coverage_headers(plan.designs[0]), *["pooled\nat most"] * pools],
        [
            [
                f"{float(design.goal.level):g}",
                _all_ranks_text(design),
                votes_needed(design),
                *coverage_cells(design),
                *[_pooled(design)] * pools,
            ]
            for design in plan.designs
        ],
    )
    if isinstance(plan.mixture, dict) and len(plan.mixture) <= _MOST_SITES:
        shares = [f"{site} {plain_spaces(nearest_percent(float(x)))}" for site, x in plan.mixture.items()]
        paragraph(f"new cases come from {', '.join(shares)}; a site that stays silent counts zero")
    sizes_differ = len({block.n for block in blocks}) > 1
    if plan.privacy is None and plan.feasible and plan.part.cases is None and sizes_differ:
        _show_sites(plan)


def _rule(plan: Plan, level: Level) -> str:
    """Describe what sites of any size send."""
    if plan.part.cases is not None:
        return _drawn_text(plan.part.cases)
    if level.eta is not None:
        return f"the rank that lies above its own {level.confidence_level:g}-quantile with chance {level.eta}"
    middle = f"ceil({level.share} (n + 1))"
    return f"rank {middle}" if level.numbers == 1 else f"{level.numbers} ranks round {middle}"


def _pooled(design: Design) -> str:
    bound = baselines.upper_bound(design.n_points, float(design.goal.level))
    return f"{bound:.4f}" if bound < 1 else "-"


def _show_sites(plan: Plan) -> None:
    """Show the ranks and votes of each site; for many sites, the range of the votes."""
    blocks, several = plan.blocks or (), len(plan.levels) > 1
    named = plan.site_names is not None and len(plan.site_names) <= _MOST_SITES
    if not named and len(blocks) > _MOST_SITES:
        votes = sorted({sum(each) for block in blocks for each in block.votes if each})
        if votes[0] < votes[-1]:
            paragraph(f"A site has {votes[0]:,} to {votes[-1]:,} votes, larger ones more.")
        return
    table(
        [*["level"] * several, "site" if named else "sites", "points", "ranks", "votes", "share\nof votes"],
        [
            [
                *[f"{level.confidence_level:g}"] * several,
                name,
                f"{block.n:,}",
                _ranks_text(block.ranks[i]),
                _votes_text(block.votes[i]),
                plain_spaces(nearest_percent(sum(block.votes[i]) / plan.designs[i].total_votes)),
            ]
            for i, level in enumerate(plan.levels)
            for block in blocks
            for name in (block.names or () if named else [_counted(block.count)])
        ],
    )


def _counted(sites: int) -> str:
    return "1 site" if sites == 1 else f"each of {sites:,} sites"


def _show_privacy(plan: Plan) -> None:
    """Show what privacy costs in coverage."""
    rule = plan.privacy
    if rule is None or not plan.feasible:
        return
    paragraph(f"private: epsilon {rule.epsilon:g} per site, {rule.mechanism}, {rule.n_bins} bins")
    table(
        ["level", "coverage\nwithout privacy", "expected\nwith privacy"],
        [
            [f"{cost.confidence_level:g}", f"{cost.without:.4f}", f"{cost.expected:.4f}"]
            for cost in expected_cost(plan)
        ],
    )


# -- with groups -------------------------------------------------------------------------------------------


def _show_groups(plan: Plan) -> None:
    goals = dict.fromkeys(_goal(alone) for alone in plan.by_label.values())
    paragraph(f"{plan.grouping.counted(len(plan.labels))}; {'; '.join(goals)}")
    designs = [design for alone in plan.by_label.values() if not alone.is_open for design in alone.designs]
    headers = coverage_headers(designs[0]) if designs else ("coverage", "std", "5 %\nquantile")
    rows = [row for label, alone in plan.by_label.items() for row in _group_rows(label, alone)]
    table(["group", "sites", "points", "level", "ranks", *headers], rows)
    if plan.epsilon is not None:
        split = ", ".join(f"{part.label} {part.epsilon:g}" for part in plan.parts)
        paragraph(f"private: epsilon {float(plan.epsilon):g} per site, split: {split}")


def _group_rows(label: str, plan: Plan) -> list[list[str]]:
    sites = "any" if plan.n_sites is None else f"{plan.n_sites:,}"
    points = (_sizes(plan) or "open").replace(" points", "").replace(" point", "")
    if plan.is_open:
        known = [[""] * 4] * len(plan.levels)
    else:
        known = [[_all_ranks_text(design), *coverage_cells(design)] for design in plan.designs]
    return [
        [label, sites, points, f"{level.confidence_level:g}", *cells]
        for level, cells in zip(plan.levels, known, strict=True)
    ]


# -- ranks and votes ---------------------------------------------------------------------------------------


def _ranks_text(ranks: Sequence[int]) -> str:
    """Format the ranks of one site: 106, 109, 112; of many the first and the last."""
    if not ranks:
        return "not asked"
    if len(ranks) <= _MOST_RANKS:
        return ", ".join(map(str, ranks))
    return f"{ranks[0]}, {ranks[1]}, ..., {ranks[-1]} ({len(ranks)} numbers)"


def _drawn_text(how_many: int) -> str:
    return f"{count(how_many, 'random case')} of each site"


def _all_ranks_text(design: Design) -> str:
    """Format the ranks of all sites: the same for all of them, or their range."""
    if isinstance(design.sending, Cases):
        return _drawn_text(design.sending.numbers)
    different = sorted({block.ranks for block in design.asked})
    if len(different) == 1:
        return _ranks_text(different[0])
    low, high = min(ranks[0] for ranks in different), max(ranks[-1] for ranks in different)
    fewest, most = min(map(len, different)), max(map(len, different))
    each = f", {'' if fewest == most else 'up to '}{most} each" if most > 1 else ""
    return f"{low} to {high}{each}"


def _votes_text(votes: Sequence[int]) -> str:
    """Format the votes of one site, and of each number where it sends several."""
    if len(votes) < 2:
        return str(sum(votes))
    each = f"{votes[0]} each" if len(set(votes)) == 1 else " + ".join(map(str, votes))
    return f"{sum(votes)} ({each})"


def votes_needed(design: Design) -> str:
    """Format the votes that the threshold needs, of all there are."""
    return f"{design.server_rank} of {design.total_votes}" if design.is_finite else "infinite"
