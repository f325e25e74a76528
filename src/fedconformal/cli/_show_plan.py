"""What a coordinator wants to know of a plan."""

from fedconformal import baselines
from fedconformal._text import count
from fedconformal.cli._show import table
from fedconformal.documents import Plan
from fedconformal.laws import CoverageLaw
from fedconformal.planning import Design
from fedconformal.privacy import expected_cost

LAW = ("coverage", "std", "5 % quantile")


def law_cells(law: CoverageLaw) -> list[str]:
    """Mean, spread and 5 % quantile of a coverage."""
    return [f"{law.mean():.4f}", f"{law.std():.4f}", f"{law.ppf(0.05):.4f}"]


def show_plan(plan: Plan) -> None:
    """Who is asked and for what, what this gives, and what stands in the way."""
    if plan.is_grouped:
        _show_groups(plan)
    else:
        print(f"{_sites(plan)}, {_sizes(plan) or 'sizes come with the reports'}; {_goal(plan)}")
        _show_ranks(plan)
        _show_privacy(plan)
    for note in plan.notes:
        print(note)


def _goal(plan: Plan) -> str:
    """What is wanted, as far as it is not usual."""
    words = [
        f"criterion {plan.criterion_object().options(plan.delta)}",
        plan.promise_object().options(),
        f"up to {plan.max_faulty} faulty" if plan.max_faulty else "",
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
        rows = [[f"{level.confidence_level:g}", f"ceil({level.share} (n + 1))"] for level in plan.levels]
        table(["level", "each site sends rank"], rows)
        return
    pools = plan.promise_object().pools
    table(
        ["level", "local rank", "server rank", *LAW, *["centralised at most"] * pools],
        [
            [*_rank_cells(design), *law_cells(design.law()), *_pooled(design) * pools]
            for design in plan.designs
        ],
    )


def _rank_cells(design: Design) -> list[str]:
    """Level, the ranks that sites send, and the votes that are needed."""
    ranks = sorted({block.ranks for block in design.blocks})
    local = ", ".join(map(str, ranks[0])) if len(ranks) == 1 else f"{ranks[0][0]} to {max(map(max, ranks))}"
    votes = f"{design.server_rank} of {design.n_sites}" if design.is_finite else "infinite"
    return [f"{float(design.goal.level):g}", local, votes]


def _pooled(design: Design) -> list[str]:
    """The most that all scores in one place would cover."""
    bound = baselines.upper_bound(design.n_points, float(design.goal.level))
    return [f"{min(bound, 1.0):.4f}"]


def _show_privacy(plan: Plan) -> None:
    """What privacy costs in coverage."""
    rule = plan.privacy
    if rule is None or not plan.feasible:
        return
    print(f"private: epsilon {rule.epsilon:g} per site, {rule.mechanism}, {len(rule.edges)} bins")
    table(
        ["level", "coverage without privacy", "expected with privacy"],
        [
            [f"{cost.confidence_level:g}", f"{cost.without:.4f}", f"{cost.expected:.4f}"]
            for cost in expected_cost(plan)
        ],
    )


# -- with groups -------------------------------------------------------------------------------------------


def _show_groups(plan: Plan) -> None:
    goals = dict.fromkeys(_goal(alone) for alone in plan.by_label.values())
    print(f"{count(len(plan.labels), 'group')}; {'; '.join(goals)}")
    rows = [row for label, alone in plan.by_label.items() for row in _group_rows(label, alone)]
    table(["group", "sites", "points", "level", *LAW], rows)
    if plan.epsilon is not None:
        split = ", ".join(f"{part.label} {part.epsilon:g}" for part in plan.parts)
        print(f"private: epsilon {float(plan.epsilon):g} per site, split: {split}")


def _group_rows(label: str, plan: Plan) -> list[list[str]]:
    sites = "any" if plan.n_sites is None else count(plan.n_sites, "site")
    laws = [[""] * len(LAW)] * len(plan.levels) if plan.laws is None else map(law_cells, plan.laws)
    return [
        [label, sites, _sizes(plan) or "open", f"{level.confidence_level:g}", *law]
        for level, law in zip(plan.levels, laws, strict=True)
    ]
