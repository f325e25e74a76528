"""``fedconformal plan``: options become arguments of the library, and the plan is shown
in tables.
"""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path

import typer

from fedconformal import messages, protocol
from fedconformal._text import count, listed, nearest_percent
from fedconformal.cli import _parse
from fedconformal.cli._files import Output, signed
from fedconformal.cli._show import in_options, paragraph, table, working
from fedconformal.documents import Design, Plan
from fedconformal.planning import CRITERIA, PROMISES, PromiseScope
from fedconformal.privacy import exact_text

_INFEASIBLE = 3
_MOST_SITES, _MOST_RANKS = 12, 6


def plan(
    *,
    sites: str | None = None,
    points: str | None = None,
    group: list[str] | None = None,
    group_by: str | None = None,
    confidence_level: list[float] | None = None,
    risk: list[float] | None = None,
    criterion: str | None = None,
    promise: str | None = None,
    numbers: int | None = None,
    max_faulty: int = 0,
    max_missing: int | None = None,
    score: str | None = None,
    curve: str | None = None,
    epsilon: float | None = None,
    bins: str | None = None,
    paper: bool = False,
    key: list[str] | None = None,
    masked: bool = False,
    term: list[str] | None = None,
    sign: Path | None = None,
    exit_code: bool = False,
    out: Output,
) -> None:
    """Make a plan."""
    out.check()
    if risk and confidence_level:
        raise ValueError("--risk is 1 minus --confidence-level: give one of them")
    goal, delta = _parse.criterion(criterion)
    promised, mixture = _parse.promise(promise)
    edges, losses = _parse.suffix("--curve", curve, ("parts", "starts"))
    exact, privacy = _parse.grid(edges, epsilon, bins, paper=paper)
    terms = _parse.terms("--term", term or [])
    if masked and (terms is None or "model" not in terms):
        raise ValueError(
            "--masked goes with --term model=FILE: masks cancel only if all sites use"
            " one model"
        )
    options = dict(
        n_sites=_parse.sites(sites),
        **_parse.sizes(points, group or [], group_by),
        confidence_level=confidence_level or None,
        risk=risk,
        criterion=goal,
        delta=delta,
        promise=promised,
        mixture=mixture,
        numbers=numbers,
        max_faulty=max_faulty,
        max_missing=max_missing,
        local_ranks="paper" if paper and privacy is None else None,
        score=_parse.score(score),
        curve=exact,
        **losses,
        privacy=privacy,
        keys=_parse.keys(key or []),
        masked=masked or None,
        terms=terms,
    )
    # What was not given is left to the library; all warnings are among the notes of the
    # plan.
    with (
        working("planning"),
        warnings.catch_warnings(action="ignore", category=UserWarning),
    ):
        made = protocol.plan(
            **{name: value for name, value in options.items() if value is not None}
        )
    made = signed(made, sign)
    out.save(made, lambda: show_plan(made))
    if exit_code and not made.feasible:
        raise typer.Exit(_INFEASIBLE)


# -- output ----------------------------------------------------------------------------


def show_plan(plan: Plan) -> None:
    """Show who is asked for what, the coverage that follows, the promise, and what
    prevents it.
    """
    goals = "; ".join(dict.fromkeys(_goal(design) for design in plan.designs))
    paragraph(f"{_asked(plan)}; {goals}")
    table(
        _row(plan, design, i)
        for design in plan.designs
        for i in range(len(design.levels))
    )
    if not plan.is_grouped:
        _show_sites(plan)
    _show_privacy(plan)
    group = (
        f" of every {plan.grouping.counted(1).removeprefix('1 ')}"
        if plan.is_grouped
        else ""
    )
    promised, notes = [], []
    for design in plan.designs:
        scope = PromiseScope.of(plan, design)
        criterion = CRITERIA[design.criterion]()
        words = {"group": group, "claim": messages.claim(design, plan.score)}
        reached = [
            float(level.confidence_level)
            for level in design.levels
            if level.advice is None
        ]
        promised += [
            f"Promised: {scope.sentence(criterion, x, _delta(design), **words)}"
            for x in reached
        ]
        if (
            reached
            and messages.law(design, 0) is not None
            and (design.n_sites or 0) > 1
        ):
            notes.append(scope.law_note)
    for sentence in dict.fromkeys([*promised, *filter(None, notes)]):
        paragraph(sentence)
    if plan.classes is not None:
        paragraph(f"Classes, in the order of columns: {', '.join(plan.classes)}.")
    for note in plan.notes:
        paragraph(in_options(note, {}))


def _asked(plan: Plan) -> str:
    """Describe the groups, or else the sites and their sizes."""
    if plan.is_grouped:
        return plan.grouping.counted(len(plan.groups))
    design = plan.designs[0]
    sites = (
        "any number of sites"
        if design.n_sites is None
        else count(design.n_sites, "site")
    )
    return f"{sites}, {_sizes(design) or 'sizes come with the reports'}"


def _row(plan: Plan, design: Design, place: int) -> dict[str, str | None]:
    """Return what each site sends for a level, and what follows; a group's sites, or
    else the votes.

    Without groups there is an upper bound with all scores in one place.
    """
    level = float(design.confidence_levels[place])
    sent = messages.of(design.message).summarize(design, place)
    row: dict[str, str | None] = {"level": f"{level:g}", "each site\nsends": sent}
    coverage = {} if design.is_open else coverage_columns(design, place)
    if plan.is_grouped:
        sites = "any" if design.n_sites is None else f"{design.n_sites:,}"
        points = (_sizes(design) or "open").partition(" point")[0].replace(" to ", "-")
        return {
            "group": design.group,
            "sites": sites,
            "points": points,
            **row,
            **coverage,
        }
    if design.is_open:
        return row
    pooled = level + 1 / (
        sum(kind.count * kind.n for kind in design.kinds) + 1
    )  # paper, section 3.3
    has_bound = (
        PROMISES[design.promise].pools and messages.law(design, place) is not None
    )
    bound = f"{pooled:.4f}" if pooled < 1 else "-"
    votes = votes_needed(design, place)
    return {
        **row,
        "votes\nneeded": votes,
        **coverage,
        "pooled\nat most": bound if has_bound else None,
    }


def _delta(design: Design) -> float | None:
    return None if design.delta is None else float(design.delta)


def _goal(design: Design) -> str:
    words = [
        f"criterion {CRITERIA[design.criterion]().options(_delta(design))}",
        PROMISES[design.promise]().options(),
        f"up to {design.max_faulty} faulty" if design.max_faulty else "",
        (
            f"tolerates {count(design.max_missing, 'missing site')}"
            if design.max_missing
            else ""
        ),
    ]
    return ", ".join(word for word in words if word)


def _sizes(design: Design) -> str | None:
    """Describe the sizes of the sites, where they are known."""
    if design.is_open:
        return None
    low, high = (
        min(kind.n for kind in design.kinds),
        max(kind.n for kind in design.kinds),
    )
    return (
        f"{count(low, 'point')} each" if low == high else f"{low:,} to {high:,} points"
    )


# -- coverage --------------------------------------------------------------------------


def coverage_columns(design: Design, place: int) -> dict[str, str]:
    """Return mean, standard deviation and 5 % quantile of the coverage by name, or else
    the guarantee.

    An infinite threshold has dashes: a coverage of 1 would look like success.
    """
    names = _coverage_headers(design)
    law, guarantee = messages.law(design, place), messages.guarantee(design, place)
    if design.levels[place].advice is not None:
        cells = ["-"] * len(names)
    elif law is not None:
        cells = [f"{guarantee.mean:.4f}", f"{law.std():.4f}", f"{law.ppf(0.05):.4f}"]
    elif guarantee.mean is not None:
        cells = [_floor(guarantee.mean)]
    elif guarantee.coverage is None or guarantee.probability is None:
        cells = ["not known"]
    else:
        share = _floor(guarantee.probability)
        sure = (
            f"with probability {share}"
            if PROMISES[design.promise].pools
            else f"at {share} of new sites"
        )
        cells = [f"{_floor(guarantee.coverage)}, {sure}"]
    return dict(zip(names, cells, strict=True))


def _coverage_headers(design: Design) -> tuple[str, ...]:
    """Return the names of the columns, with "exact" or "at least"."""
    message, promise = messages.of(design.message), PROMISES[design.promise]
    is_private = message.epsilon(design) is not None
    if messages.law(design, 0) is None:
        known = "with noise" if is_private else promise.among.strip()
        least = f"{message.quantity(design)} at least"
        return (f"{least}\n({known})" if known else least,)
    if is_private:
        known = "at least,\nwith noise"
    elif design.max_faulty:
        known = "at least, with\nfaulty sites"
    elif promise.is_bound:
        known = f"at least,\n{promise.bound_of or promise.among.strip()}"
    else:
        known = "at least" if message.is_bound(design) else "exact"
    return (f"coverage\n({known})", "std", "5 %\nquantile")


def _floor(value: float) -> str:
    return f"{math.floor(value * 10**4 + 1e-9) / 10**4:.4f}"


# -- sites -----------------------------------------------------------------------------


def _show_sites(plan: Plan) -> None:
    """Show shares of sites among new cases, and ranks and votes where sizes differ."""
    if isinstance(plan.mixture, dict) and len(plan.mixture) <= _MOST_SITES:
        shares = [
            f"{site} {nearest_percent(float(x))}" for site, x in plan.mixture.items()
        ]
        paragraph(
            f"New cases come from {', '.join(shares)}; a missing site counts zero."
        )
    design = plan.designs[0]
    message, several = messages.of(design.message), len(design.levels) > 1
    ranks = [message.local_ranks(design, i) for i in range(len(design.levels))]
    votes = [message.votes(design, i) or () for i in range(len(design.levels))]
    if (
        len({kind.n for kind in design.kinds}) < 2
        or not design.is_feasible
        or ranks[0] is None
    ):
        return
    named = design.site_names is not None and len(design.site_names) <= _MOST_SITES
    if not named and len(design.kinds) > _MOST_SITES:
        totals = sorted({sum(own) for level in votes for own in level if own})
        if totals[0] < totals[-1]:
            paragraph(
                f"A site has {totals[0]:,} to {totals[-1]:,} votes, larger ones more."
            )
        return
    table(
        {
            "level": f"{level:g}" if several else None,
            "site" if named else "sites": name,
            "points": f"{kind.n:,}",
            "ranks\nsent": _ranks_text((ranks[i] or ())[j]),
            "votes": _votes_text(votes[i][j]),
            "share\nof votes": nearest_percent(
                sum(votes[i][j]) / _total_votes(design, i)
            ),
        }
        for i, level in enumerate(design.confidence_levels)
        for j, kind in enumerate(design.kinds)
        for name in (
            kind.names
            if named
            else ["1 site" if kind.count == 1 else f"each of {kind.count:,} sites"]
        )
    )


def _show_privacy(plan: Plan) -> None:
    """Show the privacy loss, and the coverage to expect in spite of the noise."""
    design = plan.designs[0]
    message = messages.of(design.message)
    epsilon = message.epsilon(design)
    if epsilon is None:
        return
    groups = " for each group" if plan.is_grouped else ""
    bearers = getattr(design.message, "bearers", ())
    what = (
        f"the sum, with noise of {listed(bearers)},"
        if bearers
        else "each site's answer"
    )
    paragraph(f"Private: {what} has epsilon {exact_text(epsilon)}{groups}.")
    for place, level in enumerate(
        () if plan.is_grouped or design.is_open else design.confidence_levels
    ):
        expected = (
            None
            if design.levels[place].advice is not None
            else message.expected(design, place)
        )
        if expected is not None:
            paragraph(
                f"At the level {level:g}, expect a coverage of {expected[0]:.4f}"
                f" (standard deviation {expected[1]:.4f}) if scores are spread evenly"
                " over the bins."
            )


# -- ranks and votes -------------------------------------------------------------------


def _ranks_text(ranks: Sequence[int]) -> str:
    """Format the ranks of one site: 106, 109, 112; of many the first and the last."""
    if not ranks:
        return "not asked"
    if len(ranks) <= _MOST_RANKS:
        return ", ".join(map(str, ranks))
    return f"{ranks[0]}, {ranks[1]}, ..., {ranks[-1]} ({len(ranks)} numbers)"


def _votes_text(votes: Sequence[int]) -> str:
    """Format the votes of one site, and of each number where it sends several."""
    if len(votes) < 2:
        return str(sum(votes))
    parts = f"{votes[0]} each" if len(set(votes)) == 1 else " + ".join(map(str, votes))
    return f"{sum(votes)} ({parts})"


def _total_votes(design: Design, place: int) -> int:
    votes = messages.of(design.message).votes(design, place) or ()
    return sum(
        kind.count * sum(own) for kind, own in zip(design.kinds, votes, strict=True)
    )


def votes_needed(design: Design, place: int) -> str | None:
    """Format the votes that the threshold needs, of all there are; None where counts
    are added up.
    """
    if messages.of(design.message).adds_up:
        return None
    level = design.levels[place]
    return (
        f"{level.votes} of {_total_votes(design, place)}"
        if level.advice is None
        else "infinite"
    )
