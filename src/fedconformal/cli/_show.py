"""How results look on a terminal."""

import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from fedconformal import baselines
from fedconformal.documents import Calibration, Document, GroupCalibration, GroupPlan, Plan
from fedconformal.laws import CoverageLaw


def say(text: str = "") -> None:
    """A line for people: on stderr, so that stdout stays for data."""
    print(text, file=sys.stderr)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A progress bar for what takes more than a second; none where nobody watches."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task(what, total=None)
    timer = threading.Timer(1.0, progress.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        progress.stop()


def print_json(content: Document | dict[str, Any] | list[Any]) -> None:
    """A document or a result for machines, on stdout."""
    print(
        content.to_json() if isinstance(content, Document) else json.dumps(content, indent=2, allow_nan=False)
    )


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None) -> None:
    """A table on stdout."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(*headers, title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for row in rows:
        grid.add_row(*(Text(str(cell)) for cell in row))
    width = None if sys.stdout.isatty() else 110
    Console(file=sys.stdout, highlight=False, markup=False, width=width).print(grid)


def number(value: float) -> str:
    """A float with the digits a reader needs."""
    return "infinite" if value == float("inf") else f"{value:.6g}"


LAW = ("coverage", "std", "5 % quantile")


def law_row(law: CoverageLaw) -> list[str]:
    """Mean, spread and 5 % quantile of a coverage."""
    return [f"{law.mean():.4f}", f"{law.std():.4f}", f"{law.ppf(0.05):.4f}"]


def show_plan(plan: Plan) -> None:
    """What a coordinator wants to know of a plan."""
    sizes = "sizes come with the reports" if plan.n_points is None else _sizes(list(plan.n_points))
    print(
        f"{plan.n_sites or 'any number of'} sites, {sizes}; criterion {plan.criterion}"
        + (", for each site by itself" if plan.target == "each-site" else "")
        + (f", delta {plan.delta:g}" if plan.delta else "")
        + (f", up to {plan.max_faulty} faulty" if plan.max_faulty else "")
    )
    if plan.laws is None:
        rows = [[f"{level.confidence_level:g}", f"ceil({level.share} (n + 1))"] for level in plan.levels]
        table(["level", "each site sends rank"], rows)
        return
    rows = []
    for i, (level, law) in enumerate(zip(plan.levels, plan.laws, strict=True)):
        ranks = sorted({group.ranks[i] for group in plan.groups or ()})
        local = str(ranks[0]) if len(ranks) == 1 else f"{ranks[0]} to {ranks[-1]}"
        rank = "infinite" if level.advice else f"{level.server_rank} of {plan.n_sites}"
        pooled = baselines.upper_bound(
            sum(group.count * group.n for group in plan.groups or ()), level.confidence_level
        )
        rows.append([f"{level.confidence_level:g}", local, rank, *law_row(law), f"{min(pooled, 1.0):.4f}"])
    table(["level", "local rank", "server rank", *LAW, "centralised at most"], rows)
    show_privacy(plan)
    for note in plan.notes:
        print(note)


def show_privacy(plan: Plan) -> None:
    """What privacy costs in coverage."""
    if plan.privacy is None or not plan.feasible:
        return
    from fedconformal.privacy import expected_cost

    rows = [
        [f"{cost.confidence_level:g}", f"{cost.without:.4f}", f"{cost.expected:.4f}"]
        for cost in expected_cost(plan)
    ]
    rule = plan.privacy
    print(f"private: epsilon {rule.epsilon:g} per site, {rule.mechanism}, {len(rule.edges)} bins")
    table(["level", "coverage without privacy", "expected with privacy"], rows)


def _sites(count: int) -> str:
    return "1 site" if count == 1 else f"{count} sites"


def _sizes(sizes: list[int]) -> str:
    low, high = min(sizes), max(sizes)
    return f"{low} points each" if low == high else f"{low} to {high} points"


def show_calibration(calibration: Calibration) -> None:
    """Thresholds, what is guaranteed, who is missing, and on what it rests."""
    rows = [
        [f"{found.confidence_level:g}", number(found.threshold), *law_row(law)]
        for found, law in zip(calibration.levels, calibration.laws, strict=True)
    ]
    table(["level", "threshold", *LAW], rows)
    print(
        f"{_sites(calibration.n_answers)} answered, {calibration.n_missing} missing"
        + (f": {', '.join(calibration.missing[:20])}" if calibration.missing else "")
    )
    for refusal in calibration.refused:
        print(f"refused: {refusal.source}: {refusal.reason}")
    _show_assumptions(calibration)


def _show_assumptions(calibration: Calibration | GroupCalibration) -> None:
    print("The guarantee rests on this:")
    for words in calibration.assumptions:
        print(f"  - {words}")


def show_group_plan(plan: GroupPlan) -> None:
    """What a coordinator wants to know of each group."""
    rows: list[list[str]] = []
    for label, one in plan.by_label.items():
        sizes = "open" if one.n_points is None else _sizes(list(one.n_points))
        for i, level in enumerate(one.levels):
            law = [""] * len(LAW) if one.laws is None else law_row(one.laws[i])
            rows.append(
                [
                    label,
                    _sites(one.n_sites) if one.n_sites else "any",
                    sizes,
                    f"{level.confidence_level:g}",
                    *law,
                ]
            )
    table(["group", "sites", "points", "level", *LAW], rows)
    if plan.epsilon is not None:
        parts = ", ".join(
            f"{label} {one.privacy.epsilon:g}" for label, one in plan.by_label.items() if one.privacy
        )
        print(f"private: epsilon {float(plan.epsilon):g} per site, split: {parts}")
    for note in plan.notes:
        print(note)


def show_group_calibration(calibration: GroupCalibration) -> None:
    """Thresholds and laws of each group, who is missing where, and on what it rests."""
    rows = []
    for label, found in calibration.by_label.items():
        for level, law in zip(found.levels, found.laws, strict=True):
            shown = [f"{level.confidence_level:g}", number(level.threshold), *law_row(law)]
            rows.append([label, *shown, f"{found.n_answers}", f"{found.n_missing}"])
    table(["group", "level", "threshold", *LAW, "answers", "missing"], rows)
    print(f"{_sites(len(calibration.answers))} answered")
    for part in calibration.uncalibrated:
        print(f"group {part.label!r}: too few answers ({len(part.answered)}), the threshold is infinite")
    for label, names in calibration.missing.items():
        if names:
            print(f"group {label!r}: no answer from {', '.join(names[:20])}")
    for refusal in calibration.refused:
        print(f"refused: {refusal.source}: {refusal.reason}")
    for label, refused in calibration.refused_in.items():
        for refusal in refused:
            print(f"refused: {refusal.source}, group {label!r}: {refusal.reason}")
    _show_assumptions(calibration)
