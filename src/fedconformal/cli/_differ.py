"""What a coordinator asks about sites that differ: whatif, compare."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from fedconformal import heterogeneity
from fedconformal._tables import read_column
from fedconformal.cli._server import expand, read_reports
from fedconformal.cli._show import number, print_json, say, table, working
from fedconformal.documents import Calibration, DocumentError, Plan, Report
from fedconformal.heterogeneity import MIXTURE, WhatIf
from fedconformal.heterogeneity._shifts import Shift
from fedconformal.laws import CoverageLaw


def what_if(
    file: Path,
    shifts: list[str],
    *,
    tests: list[str],
    reference: str,
    weights: list[str],
    level: float | None,
    as_json: bool,
) -> None:
    """Show the law of coverage for each kind of test point, beside what was promised."""
    with working("computing the laws"):
        asked = heterogeneity.what_if(
            _plan_or_calibration(file),
            dict(_pair("--shift", text, _shift) for text in shifts),
            reference=_reference(reference),
            weights=dict(_pair("--weight", text, float) for text in weights) or None,
            confidence_level=level,
        )
        rows = [_row(asked, test) for test in ([None, *(tests or [*asked.shifts, MIXTURE])])]
    promised = asked.promised
    if as_json:
        print_json({"promised": _numbers(promised), "test": [row for _, row in rows]})
        return
    headings = ["test points", "coverage, exact", "in 95 % of calibrations", "Prop. 3.4", "by Ehm"]
    lines = [
        ["promised, no site differs", number(promised.mean()), f"≥ {number(promised.ppf(0.05))}", "", ""]
    ]
    for words, row in rows:
        both = (row["bound"], row["ehm_bound"])
        bounds = ["" if bound is None else f"≥ {number(max(0.0, bound))}" for bound in both]
        lines.append([words, number(row["mean"]), f"≥ {number(row['quantile_5'])}", *bounds])
    table(headings, lines)


def _row(asked: WhatIf, test: str | None) -> tuple[str, dict[str, Any]]:
    law = asked.law(test)
    bound, ehm = (None, None) if asked.max_faulty else asked.bounds(test)
    words = {None: "like the sites that do not differ", MIXTURE: "from all sites, by weight"}
    row = {"test": test, **_numbers(law), "bound": bound, "ehm_bound": ehm}
    return words.get(test, f"from site {test}"), row


def _numbers(law: CoverageLaw) -> dict[str, float]:
    return {"mean": law.mean(), "std": law.std(), "quantile_5": float(law.ppf(0.05))}


def compare(
    plan_file: Path,
    files: list[Path],
    *,
    reference: str | None,
    column: str | None,
    level: float | None,
    false_alarm: float,
    as_json: bool,
) -> None:
    """Show who stands out."""
    plan = Plan.read(plan_file)
    reports, unreadable = read_reports(expand(files), Report)
    with working("comparing"):
        found = heterogeneity.compare_sites(
            plan,
            reports,
            reference=None if reference is None else _reference(reference, column),
            confidence_level=level,
            false_alarm=false_alarm,
        )
    for refusal in (*unreadable, *found.refused):
        say(f"left out: {refusal.source}: {refusal.reason}")
    if as_json:
        sites = [vars(finding) for finding in found.sites]
        refused = [refusal.model_dump() for refusal in (*unreadable, *found.refused)]
        left = {"left_out": list(found.left_out), "refused": refused}
        print_json({"assumption": found.assumption, "p_value": found.p_value, "sites": sites, **left})
        return
    ordered = sorted(found.sites, key=lambda finding: (finding.p_value, -abs(finding.position)))
    without = found.assumption == "exponential tail"
    where = "robust sd from the middle" if without else "share of the reference below"
    rows = [
        [
            f.site,
            f.n,
            number(f.value),
            f"{f.position:+.1f}" if without else number(f.position),
            _chance(f.p_value),
        ]
        for f in ordered[:20]
    ]
    table(["site", "points", "report", where, "adjusted p"], rows)
    if len(ordered) > len(rows):
        print(f"... and {len(ordered) - len(rows)} more sites (--json shows all).")
    for name in found.left_out:
        print(f"{name} sent Infinity and was left out.")
    print(found.sentence())


def _chance(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def _plan_or_calibration(path: Path) -> Plan | Calibration:
    try:
        return Plan.read(path)
    except DocumentError as first:
        try:
            return Calibration.read(path)
        except DocumentError:
            raise first from None


def _reference(text: str, column: str | None = None) -> Any:
    """A named distribution, or a file of scores."""
    return read_column(Path(text), column) if Path(text).suffix else text


def _pair(option: str, text: str, read: Any) -> tuple[str, Any]:
    site, equals, value = text.rpartition("=")
    if not equals or not site:
        raise ValueError(f"{option} must be SITE=..., got {text!r}")
    try:
        return site, read(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{option} {text}: {error}") from None


def _shift(text: str) -> Shift:
    kind, _, rest = text.partition(":")
    if kind == "scores":
        return heterogeneity.examples(read_column(Path(rest)))
    makers: dict[str, Callable[..., Shift]] = {
        "scale": heterogeneity.scale,
        "location": heterogeneity.location,
        "power": heterogeneity.power,
        "contaminated": heterogeneity.contaminated,
    }
    if kind not in makers:
        kinds = "scale:1.5, location:0.3, power:2, contaminated:0.1:5 or scores:FILE"
        raise ValueError(f"a shift is one of {kinds}")
    return makers[kind](*map(float, rest.split(":")))
