"""What a coordinator wants to know of a plan."""

import math
from functools import partial

from fedconformal import baselines
from fedconformal._text import count, nearest_percent, plain_spaces
from fedconformal.cli._command import in_options
from fedconformal.cli._ranks import all_ranks_text, drawn_text, ranks_text, votes_needed, votes_text
from fedconformal.cli._show import paragraph
from fedconformal.cli._show import table as any_table
from fedconformal.documents import Level, Plan
from fedconformal.laws import CoverageLaw
from fedconformal.planning import Design, Promise
from fedconformal.privacy import expected_cost

_MOST_SITES = 12
table = partial(any_table, widest=80)


def law_cells(law: CoverageLaw) -> list[str]:
    """Mean, spread and 5 % quantile of a coverage."""
    return [f"{law.mean():.4f}", f"{law.std():.4f}", f"{law.ppf(0.05):.4f}"]


def coverage_headers(design: Design) -> tuple[str, ...]:
    """What is shown of a coverage, and whether it is exact or a bound, and of what."""
    if not design.has_law:
        return (f"coverage at least\n({design.promise.among.strip()})",)
    return (f"coverage\n({_known(design)})", "std", "5 %\nquantile")


def _known(design: Design) -> str:
    """How a coverage is known: exactly, or as a bound."""
    if design.sending.is_bound:
        return "at least,\nunder noise"
    if design.goal.max_faulty:
        return "at least, with\nfaulty sites"
    if design.promise.is_bound:
        return f"at least,\n{design.promise.bound_of or design.promise.among.strip()}"
    return "exact"


def coverage_cells(design: Design) -> list[str]:
    """The law of a coverage; where there is none its least mean, or at how many new sites it is reached.

    Nothing that looks like success where every set would hold everything.
    """
    if not design.is_finite:
        return ["-"] * len(coverage_headers(design))
    if design.has_law:
        return law_cells(design.law())
    found = design.guarantee()
    if found.mean is not None:
        return [_floor(found.mean)]
    return [f"{_floor(found.coverage or 0)}, at {_floor(found.probability or 0)} of new sites"]


def promised_cell(design: Design) -> str:
    """The mean coverage that is promised, or the coverage and how surely it is reached."""
    found = design.guarantee()
    if found.mean is not None and not design.goal.criterion.takes_delta:
        return _floor(found.mean)
    return f"{_floor(found.coverage or 0)}, {_floor(found.probability or 0)}"


def _floor(value: float) -> str:
    """A lower bound, rounded down."""
    return f"{math.floor(value * 10**4 + 1e-9) / 10**4:.4f}"


def show_plan(plan: Plan) -> None:
    """Who is asked and for what, what this gives, what is promised, and what stands in the way."""
    if plan.is_grouped:
        _show_groups(plan)
    else:
        paragraph(f"{_sites(plan)}, {_sizes(plan) or 'sizes come with the reports'}; {_goal(plan)}")
        _show_ranks(plan)
        _show_privacy(plan)
    for sentence in promise_sentences(plan):
        paragraph(sentence)
    for note in law_notes(plan):
        paragraph(note)
    if plan.classes is not None:
        paragraph(f"classes, in the order of columns: {', '.join(plan.classes)}")
    for note in plan.notes:
        paragraph(in_options(note, {}))


def promise_sentences(plan: Plan) -> list[str]:
    """What is promised, a plain sentence for each level; none where no threshold can be finite."""
    group = f" of every {plan.grouping.counted(1).removeprefix('1 ')}" if plan.is_grouped else ""
    parts = plan.by_label.values() if plan.is_grouped else [plan]
    found = [_promised(part, level, group) for part in parts for level in _reached(part)]
    return [f"Promised: {sentence}" for sentence in dict.fromkeys(found)]


def _reached(plan: Plan) -> list[float]:
    """The levels that some ranks reach."""
    return [level.confidence_level for level in plan.levels if level.advice is None]


def _promised(plan: Plan, level: float, group: str) -> str:
    promise = plan.promise_object()
    sentence = promise.sentence(plan.criterion_object(), level, plan.delta, group)
    alike = promise.condition if promise.whose == Promise.whose else ""
    return plain_spaces(f"{sentence[:-1]}, {alike}." if alike else sentence)


def law_notes(plan: Plan) -> list[str]:
    """What the laws shown do not contain, where there are several sites."""
    alone = list(plan.by_label.values()) if plan.is_grouped else [plan]
    there = [each for each in alone if _reached(each) and not each.is_open and (each.n_sites or 0) > 1]
    return list(dict.fromkeys(note for each in there if (note := each.promise_object().law_note)))


def _goal(plan: Plan) -> str:
    """What is wanted, as far as it is not usual."""
    words = [
        f"criterion {plan.criterion_object().options(plan.delta)}",
        plan.promise_object().options(),
        f"up to {plan.max_faulty} faulty" if plan.max_faulty else "",
        f"bears {count(plan.part.max_missing, 'silent site')}" if plan.part.max_missing else "",
    ]
    return ", ".join(word for word in words if word)


def _sites(plan: Plan) -> str:
    return "any number of sites" if plan.n_sites is None else count(plan.n_sites, "site")


def _sizes(plan: Plan) -> str | None:
    """The sizes of the sites, where they are known."""
    if plan.blocks is None:
        return None
    low, high = min(block.n for block in plan.blocks), max(block.n for block in plan.blocks)
    return f"{count(low, 'point')} each" if low == high else f"{low:,} to {high:,} points"


# -- without groups ----------------------------------------------------------------------------------------


def _show_ranks(plan: Plan) -> None:
    if plan.is_open:
        table(
            ["level", "each site sends"],
            [[f"{level.confidence_level:g}", _rule(plan, level)] for level in plan.levels],
        )
        return
    pools = plan.promise_object().pools
    table(
        [
            "level",
            _ranks_header(plan),
            "votes\nneeded",
            *coverage_headers(plan.designs[0]),
            *["pooled\nat most"] * pools,
        ],
        [
            [*_rank_cells(design), *coverage_cells(design), *_pooled(design) * pools]
            for design in plan.designs
        ],
    )
    _show_shares(plan)
    if (
        plan.privacy is None
        and plan.feasible
        and plan.part.cases is None
        and len({block.n for block in plan.blocks or ()}) > 1
    ):
        _show_sites(plan)


def _show_shares(plan: Plan) -> None:
    """How often new cases come from each site, where a mixture says so."""
    if isinstance(plan.mixture, dict) and len(plan.mixture) <= _MOST_SITES:
        shares = [f"{site} {plain_spaces(nearest_percent(float(x)))}" for site, x in plan.mixture.items()]
        paragraph(f"new cases come from {', '.join(shares)}; a site that stays silent counts zero")


def _rule(plan: Plan, level: Level) -> str:
    """What sites of any size send."""
    if plan.part.cases is not None:
        return drawn_text(plan.part.cases)
    if level.eta is not None:
        return f"the rank that lies above its own {level.confidence_level:g}-quantile with chance {level.eta}"
    middle = f"ceil({level.share} (n + 1))"
    return f"rank {middle}" if level.numbers == 1 else f"{level.numbers} ranks round {middle}"


def _rank_cells(design: Design) -> list[str]:
    """Level, the ranks that sites send, and the votes that are needed."""
    return [f"{float(design.goal.level):g}", all_ranks_text(design), votes_needed(design)]


def _ranks_header(plan: Plan) -> str:
    """Whose ranks a column holds."""
    if plan.part.cases is not None:
        return "each site\nsends"
    alike = all(len({block.ranks[i] for block in plan.blocks or ()}) == 1 for i in range(len(plan.levels)))
    return "rank, at\nevery site" if alike else "ranks, of\nall sites"


def _show_sites(plan: Plan) -> None:
    """Whose rank is whose, and how much each site counts; for many sites, just from where to where."""
    blocks = plan.blocks or ()
    named = plan.site_names is not None and len(plan.site_names) <= _MOST_SITES
    if named or len(blocks) <= _MOST_SITES:
        several = len(plan.levels) > 1
        rows = [row for i in range(len(plan.levels)) for row in _site_rows(plan, i, with_level=several)]
        whose = ["site"] if named else ["sites"]
        table([*["level"] * several, *whose, "points", "ranks", "votes", "share\nof votes"], rows)
        return
    votes = sorted({sum(each) for block in blocks for each in block.votes if each})
    if votes[0] < votes[-1]:
        paragraph(f"A site has {votes[0]:,} to {votes[-1]:,} votes, larger ones more.")


def _site_rows(plan: Plan, i: int, *, with_level: bool) -> list[list[str]]:
    level, total = plan.levels[i], plan.designs[i].total_votes
    named = plan.site_names is not None and len(plan.site_names) <= _MOST_SITES
    return [
        [
            *[f"{level.confidence_level:g}"] * with_level,
            name,
            f"{block.n:,}",
            ranks_text(block.ranks[i]),
            votes_text(block.votes[i]),
            plain_spaces(nearest_percent(sum(block.votes[i]) / total)),
        ]
        for block in plan.blocks or ()
        for name in (block.names or () if named else [_counted(block.count)])
    ]


def _counted(sites: int) -> str:
    return "1 site" if sites == 1 else f"each of {sites:,} sites"


def _pooled(design: Design) -> list[str]:
    """The most that all scores in one place would cover."""
    bound = baselines.upper_bound(design.n_points, float(design.goal.level))
    return [f"{bound:.4f}" if bound < 1 else "-"]


def _show_privacy(plan: Plan) -> None:
    """What privacy costs in coverage."""
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
    rows = [row for label, alone in plan.by_label.items() for row in _group_rows(label, alone)]
    table(["group", "sites", "points", "level", "ranks", *_group_headers(plan)], rows)
    if plan.epsilon is not None:
        split = ", ".join(f"{part.label} {part.epsilon:g}" for part in plan.parts)
        paragraph(f"private: epsilon {float(plan.epsilon):g} per site, split: {split}")


def _group_headers(plan: Plan) -> tuple[str, ...]:
    designs = [design for alone in plan.by_label.values() if not alone.is_open for design in alone.designs]
    return coverage_headers(designs[0]) if designs else ("coverage", "std", "5 %\nquantile")


def _group_rows(label: str, plan: Plan) -> list[list[str]]:
    sites = "any" if plan.n_sites is None else f"{plan.n_sites:,}"
    points = (_sizes(plan) or "open").replace(" points", "").replace(" point", "")
    laws = [[""] * 3] * len(plan.levels) if plan.is_open else [coverage_cells(each) for each in plan.designs]
    ranks = [""] * len(plan.levels) if plan.is_open else [all_ranks_text(design) for design in plan.designs]
    return [
        [label, sites, points, f"{level.confidence_level:g}", sent, *law]
        for level, sent, law in zip(plan.levels, ranks, laws, strict=True)
    ]
