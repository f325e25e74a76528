"""``fedconformal check``, ``compare`` and ``watch``: new cases of a site, of several
sites, and over time.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal import monitoring
from fedconformal._files import STANDARD
from fedconformal._tables import Dialect, read_column
from fedconformal._text import count
from fedconformal.cli import _files
from fedconformal.cli._report import (
    CaseColumns,
    check_label,
    column_of_labels,
    read_cases,
    select_group,
)
from fedconformal.cli._show import (
    number,
    paragraph,
    print_json,
    say,
    silence_output,
    table,
    working,
)
from fedconformal.documents import Calibration, Check, Plan, ReportPart
from fedconformal.monitoring import (
    Assessment,
    Comparison,
    CoverageCheck,
    LocalCheck,
    WatchRow,
)
from fedconformal.planning import PROMISES, PromiseScope

_NEW = (
    "This holds for new cases only: none of them may have been used to train or to"
    " calibrate."
)
_MOST_ROWS = 20


def check(
    calibration: Path,
    scores: Path,
    *,
    site: str | None = None,
    columns: CaseColumns,
    label: str | None = None,
    dialect: Dialect,
    by: list[str] | None = None,
    confidence_level: float | None = None,
    private: float | None = None,
    own: _files.SiteFiles,
    period: str | None = None,
    yes: bool = False,
    out: _files.Output,
) -> None:
    """Check a calibration on new cases of this site."""
    out.check()
    if private is not None and None in (out.output, own.ledger, own.dataset):
        raise ValueError(
            "--private goes with --ledger, --dataset and -o, where the answer is"
            " written"
        )
    _check_answer(out, own, site, confidence_level)
    published = _files.read(Calibration, calibration)
    group = column_of_labels(
        published.plan, columns.group, calibration, target=columns.target
    )
    who, is_exact = own.open(site or ""), private is None
    with working("reading and counting scores"):
        labels, values, others = read_cases(
            published.plan,
            scores,
            replace(columns, group=group),
            dialect=dialect,
            private=not is_exact,
            draw=who.draw_source(of_check=True, period=period),
            by=by or [],
        )
        checked = (
            published if label is None else select_group(published, label, calibration)
        )
        if label is not None:
            rows = _rows_by_group(published, labels, site, label)[label]
            values, labels = values[rows], None
            others = {
                name: np.asarray(cells)[rows].tolist() for name, cells in others.items()
            }
    if is_exact:  # else nothing but the release may be seen, not even on this terminal
        options: dict[str, Any] = {"site": site, "confidence_level": confidence_level}
        with _shown_beside(out.output == STANDARD):
            as_json = out.json and out.output != STANDARD
            if others:
                result = monitoring.check(
                    checked, values, by=others, groups=labels, **options
                )
                _show_assessment(result, published.plan, as_json=as_json)
            else:
                parts = _rows_by_group(published, labels, site, label)
                groups = {
                    name: select_group(published, name, calibration) for name in parts
                }
                checks = {
                    name: monitoring.check(groups[name], values[parts[name]], **options)
                    for name in parts
                }
                _show(checks, as_json=as_json)
            if not as_json:
                paragraph(_NEW)
    if out.output is None or site is None:
        return
    prepared = monitoring.prepare_answer(
        checked,
        values,
        site=site,
        epsilon=private,
        by=others
        or ({group: labels} if group is not None and labels is not None else None),
        groups=labels,
        policy=who.policy,
        ledger=who.ledger,
        dataset=who.dataset,
        period=period,
    )
    if is_exact:  # what was found is printed above, as JSON too
        out = replace(out, json=False)
    out.send(
        prepared.sentence,
        prepared.make,
        ask=not yes,
        is_recorded=who.ledger is not None,
    )


def _check_answer(
    out: _files.Output,
    own: _files.SiteFiles,
    site: str | None,
    confidence_level: float | None,
) -> None:
    """Refuse options that go with an answer alone, and others that do not go with
    one.
    """
    if out.output is None and (own.ledger is not None or own.dataset is not None):
        raise ValueError("--ledger and --dataset go with an answer: -o names its file")
    if out.output is not None and site is None:
        raise ValueError("an answer needs the site's name: --site")
    if out.output is not None and confidence_level is not None:
        raise ValueError(
            "--confidence-level does not go with -o: an answer is for all levels"
        )


@contextmanager
def _shown_beside(answer_on_stdout: bool) -> Iterator[None]:
    """Print for people beside an answer on standard output; nobody who stops reading
    loses the answer.
    """
    try:
        with redirect_stdout(sys.stderr) if answer_on_stdout else nullcontext():
            yield
            sys.stdout.flush()
    except BrokenPipeError:
        silence_output()


def _rows_by_group(
    calibration: Calibration,
    labels: Sequence[str] | None,
    site: str | None,
    label: str | None,
) -> dict[str | None, Any]:
    """Return the rows of each group, or of the one that is named; of all cases under
    None without groups.
    """
    grouping = calibration.plan.grouping
    if labels is None:  # all cases are of one group
        is_known = label is not None or not calibration.plan.is_grouped
        return {label if is_known else grouping.group_of_site(site): slice(None)}
    names, codes = np.unique(labels, return_inverse=True)
    groups = np.array(grouping.groups_of(names.tolist(), site), dtype=object)[codes]
    present = sorted(set(groups) - {None}) if label is None else [label]
    rows: dict[str | None, Any] = {
        group: np.flatnonzero(groups == group) for group in present
    }
    if not any(own.size for own in rows.values()):
        where = "any group of the calibration" if label is None else f"group {label!r}"
        raise ValueError(f"no case is in {where}")
    return rows


def _show(checks: dict[str | None, LocalCheck], *, as_json: bool) -> None:
    grouped = None not in checks
    if as_json:
        fields = {
            str(label): {
                "site": result.site,
                "n": result.n,
                "levels": [_coverage_fields(level) for level in result.levels],
                "sentence": result.sentence(),
            }
            for label, result in checks.items()
        }
        print_json({"groups": fields} if grouped else fields["None"])
        return
    table(
        {
            "group": label,
            "level": f"{level.confidence_level!r}",
            "threshold": "" if level.threshold is None else number(level.threshold),
            **_coverage_columns(level),
            "p-value": f"{level.p_value:.3g}",
        }
        for label, result in checks.items()
        for level in result.levels
    )
    for label, result in checks.items():
        paragraph(
            f"Group {label!r}: {result.sentence()}" if grouped else result.sentence()
        )


# -- compare ---------------------------------------------------------------------------


def compare(
    document: Path,
    answers: list[Path],
    *,
    label: str | None = None,
    reference: Path | None = None,
    column: str | None = None,
    dialect: Dialect,
    confidence_level: float | None = None,
    false_alarm: float | None = None,
    json: bool = False,
) -> None:
    """Compare sites by their reports, or by their checks on new cases."""
    if reference is None and column is not None:
        raise ValueError("--column goes with --reference")
    read = _files.read_plan_or_calibration(document)
    if isinstance(read, Calibration):
        if (
            reference is not None
            or confidence_level is not None
            or false_alarm is not None
        ):
            raise ValueError(
                "--reference, --confidence-level and --false-alarm go with a plan and"
                f" its reports, and {document} is a calibration"
            )
        _compare_checks(read, document, answers, label, as_json=json)
        return
    check_label(read, label, document)
    scores = (
        None if reference is None else read_column(reference, column, dialect=dialect)
    )
    reports, unreadable = _files.read_reports(answers, document)
    options = {"confidence_level": confidence_level, "false_alarm": false_alarm}
    given: dict[str, Any] = {
        name: value for name, value in options.items() if value is not None
    }
    with working("comparing"):
        result = monitoring.compare(
            read, reports, group=label, reference=scores, **given
        )
    refused = (*unreadable, *result.refused)
    for refusal in refused:
        say(f"left out: {refusal.source}: {refusal.reason}")
    if not json:
        _show_comparison(
            result,
            read,
            [report.by_group[label] for report in reports if label in report.by_group],
        )
        return
    print_json(
        {
            "assumption": result.yardstick.assumption,
            "p_value": result.p_value,
            "sites": [vars(site) for site in result.sites],
            "power": result.power,
            "suspicion": result.suspicion,
            "left_out": list(result.left_out),
            "refused": [refusal.model_dump() for refusal in refused],
        }
    )


def _show_comparison(
    result: Comparison, plan: Plan, answers: Sequence[ReportPart]
) -> None:
    """Show which sites stand out."""
    yardstick, shown = result.yardstick, result.ordered[:_MOST_ROWS]
    table(
        {
            "site": site.site,
            "points": site.n,
            "report": number(site.value),
            yardstick.position_heading: f"{site.position:{yardstick.position_format}}",
            "adjusted p": (
                f"{site.p_value:.4f}" if site.p_value >= 0.0001 else "< 0.0001"
            ),
        }
        for site in shown
    )
    if len(result.sites) > len(shown):
        paragraph(
            f"... and {count(len(result.sites) - len(shown), 'more site')} (--json"
            " shows all)."
        )
    for name in result.left_out:
        paragraph(f"{name} sent Infinity and was left out.")
    if any(
        answer.payload.n_numbers > len(plan.confidence_levels) for answer in answers
    ):
        paragraph("A site that sent several numbers is compared by the middle one.")
    paragraph(result.sentence())
    paragraph(result.power_sentence())
    if result.suspicion is not None:
        paragraph(result.suspicion)
    if result.odd:
        paragraph(_advise_on_sites(plan))


def _advise_on_sites(plan: Plan) -> str:
    """Describe which promises hold for sites that differ."""
    scope = PromiseScope.of(plan, plan.designs[0])
    own = scope.promise
    if plan.grouping.by_site:
        return (
            "Each threshold of this plan is made from cases of one site, for that site"
            " alone, and holds even if sites differ."
        )
    if scope.allows_differing_sites:
        return (
            f"The promise of this plan, {own.name}, holds even if sites differ, for"
            f" {own.serves}."
        )
    others = [PROMISES[name]() for name in PROMISES]
    names = ", ".join(
        f"{other.name} (for {other.serves})"
        for other in others
        if other.bears_differing_sites
    )
    return (
        f"The promise of this plan, {own.name}, holds only"
        f" {scope.condition or 'as it says'}. These hold even if sites differ: {names};"
        " and thresholds of each site's own (--group-by site). To use one, make a new"
        " plan and collect new reports."
    )


# -- checks ----------------------------------------------------------------------------


def _compare_checks(
    calibration: Calibration,
    path: Path,
    files: list[Path],
    label: str | None,
    *,
    as_json: bool,
) -> None:
    """Show which sites and groups of cases fall short."""
    checks = [_files.read(Check, file) for file in _files.expand(files)]
    checked = _select_checked(calibration, path, checks, label)
    with working("comparing"):
        result = monitoring.compare(checked, checks)
    _show_assessment(result, calibration.plan, as_json=as_json)


def _select_checked(
    calibration: Calibration, path: Path, checks: Sequence[Check], label: str | None
) -> Any:
    """Return what was checked: the calibration, or one group of it."""
    by_label = calibration.plan.grouping.has_labels
    one_group = label is not None or (
        by_label and not any(check.groups for check in checks)
    )
    return select_group(calibration, label, path) if one_group else calibration


def _show_assessment(result: Assessment, plan: Plan, *, as_json: bool) -> None:
    """Show coverage by site and group, shortfalls, and which promises hold in spite of
    them.
    """
    if as_json:
        rows = [
            {
                "site": row.site,
                **({} if row.group is None else {"group": row.group}),
                "epsilon": row.epsilon,
                **_coverage_fields(row.check),
                "adjusted_p_value": row.adjusted_p_value,
                "falls_short": row.falls_short,
            }
            for row in result.rows
        ]
        print_json({"sites": rows, "sentence": result.sentence()})
        return
    _show_table(result)
    paragraph(result.sentence())
    if result.note:
        paragraph(result.note)
    if any(row.group is None for row in result.short) and not plan.is_grouped:
        paragraph(_advise_on_sites(plan))
    if any(row.group is not None for row in result.short):
        paragraph(
            f"A promise about sites, like this plan's ({plan.designs[0].promise}), is"
            " an average over their cases. For a promise to each kind of case plan"
            " thresholds of its own: --group-by class if the kinds are the true"
            " classes, --group if they are known beforehand; --group-by site,class or"
            " site for every site individually."
        )


def _show_table(result: Assessment) -> None:
    """Show a row for each site and group; the level and epsilon only where there are
    several.
    """
    grouped = result.by_group
    levels = {row.check.confidence_level for row in result.rows}
    epsilons = {row.epsilon for row in result.rows}
    table(
        {
            "site": row.site,
            "group": (row.group or "all") if grouped else None,
            "epsilon": (row.epsilon or "exact") if len(epsilons) > 1 else None,
            "level": repr(row.check.confidence_level) if len(levels) > 1 else None,
            **_coverage_columns(row.check, at_once=grouped),
            "p-value": None if grouped else f"{row.check.p_value:.3g}",
            "adjusted p": f"{row.adjusted_p_value:.3g}",
            "short": "YES" if row.falls_short else "",
        }
        for row in result.rows
    )


def _coverage_columns(check: CoverageCheck, *, at_once: bool = False) -> dict[str, str]:
    """Format how many cases are covered, the share, and the interval around it; shorter
    for many rows.
    """
    digits, (low, high) = 3 if at_once else 4, check.interval
    return {
        "covered": f"{check.covered} of {check.n}",
        "coverage": f"{check.coverage:.{digits}f}",
        (
            "95 % at once" if at_once else "95 % interval"
        ): f"{low:.{digits}f} to {high:.{digits}f}",
    }


def _coverage_fields(check: CoverageCheck) -> dict[str, Any]:
    """Return everything by name."""
    return {**vars(check), "coverage": check.coverage}


# -- watch -----------------------------------------------------------------------------


def watch(
    calibration: Path,
    checks: list[Path] | None = None,
    *,
    label: str | None = None,
    false_alarm: float = 0.05,
    plan: int | None = None,
    coverage: float | None = None,
    json: bool = False,
) -> None:
    """Put the checks of many periods together."""
    published = _files.read(Calibration, calibration)
    if plan is None and coverage is not None:
        raise ValueError("--coverage goes with --plan")
    if (plan is None) == (not checks):
        raise ValueError("watch takes checks, or --plan and no checks")
    if plan is not None:
        _show_plan(
            select_group(published, label, calibration),
            plan,
            coverage,
            false_alarm,
            as_json=json,
        )
        return
    read = [_files.read(Check, file) for file in _files.expand(checks or [])]
    with working("putting checks together"):
        checked = _select_checked(published, calibration, read, label)
        result = monitoring.watch(checked, read, false_alarm=false_alarm)
    if json:
        print_json(
            {**vars(result), "rows": [_watch_fields(row) for row in result.rows]}
        )
        return
    levels = {row.confidence_level for row in result.rows}
    table(
        {
            "site": row.name,
            "level": repr(row.confidence_level) if len(levels) > 1 else None,
            "covered": f"{row.covered} of {row.n}",
            "coverage": f"{row.coverage:.3f}",
            "at least": f"{int(1000 * row.lower) / 1000:.3f}",
            "E": monitoring.floor_digits(row.evidence),
            "E of change": (
                None if row.change is None else monitoring.floor_digits(row.change)
            ),
            "finding": row.verdict,
        }
        for row in result.rows
    )
    for line in result.sentence().split("\n"):
        paragraph(line)
    paragraph(
        f"{result.bound_sentence} E is evidence of a coverage below the level; an"
        f" alarm is an E of {1 / false_alarm:.4g} or more."
    )


def _watch_fields(row: WatchRow) -> dict[str, Any]:
    """Return everything by name; points without their noise."""
    points = [
        {name: value for name, value in vars(point).items() if name != "noise"}
        for point in row.points
    ]
    return {
        **vars(row),
        "n": row.n,
        "covered": row.covered,
        "verdict": row.verdict,
        "points": points,
    }


def _show_plan(
    checked: Any,
    cases: int,
    coverage: float | None,
    false_alarm: float,
    *,
    as_json: bool,
) -> None:
    """Show how soon a drop would be found."""
    with working("simulating"):
        plans = monitoring.plan_watch(checked, cases, coverage, false_alarm=false_alarm)
    if as_json:
        print_json([vars(planned) for planned in plans])
        return
    for planned in plans:
        paragraph(planned.sentence())
    paragraph(
        "Simulated 2,000 times each; a range of periods holds the exact figure with 99"
        " % confidence."
    )
