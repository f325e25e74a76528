"""``fedconformal whatif``."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal.cli._options import Json, OneLabel, OneLevel
from fedconformal.cli._show import number, print_json, table, working

if TYPE_CHECKING:
    from fedconformal.documents import Calibration, Plan
    from fedconformal.heterogeneity import WhatIf
    from fedconformal.laws import CoverageLaw

_SHIFTS = "SITE=scale:1.5, SITE=location:0.3, SITE=power:2, SITE=contaminated:0.1:5 or SITE=scores:FILE"


def whatif(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan, or a calibration.")],
    shift: Annotated[
        list[str],
        typer.Option(help=f"{_SHIFTS}; may be repeated. Sites without names are numbered from 1."),
    ],
    label: OneLabel = None,
    test: Annotated[
        list[str] | None,
        typer.Option(help="Where test points come from: a site, or mixture; by default the shifted ones."),
    ] = None,
    reference: Annotated[
        str,
        typer.Option(
            help="Scores of the other sites: half-normal, exponential, normal, uniform, log-normal, cauchy, "
            "or a file of example scores."
        ),
    ] = "half-normal",
    mixture: Annotated[
        list[str] | None, typer.Option(help="SITE=0.3: its share of the mixture; by default by size.")
    ] = None,
    confidence_level: OneLevel = None,
    json: Json = False,
) -> None:
    """Ask what becomes of the coverage if some sites differ."""
    from fedconformal import heterogeneity
    from fedconformal.cli import _parse
    from fedconformal.cli._reference import reference_from

    with working("computing the laws"):
        asked = heterogeneity.what_if(
            _document(plan, label),
            shifts_of(shift),
            reference=reference_from(reference),
            mixture=dict(_parse.pairs("--mixture", "SITE=SHARE", mixture or [], float)) or None,
            confidence_level=confidence_level,
        )
        kinds = [None, *(test or [*asked.shifts, heterogeneity.MIXTURE])]
        rows = [_row(asked, kind) for kind in kinds]
    if json:
        print_json({"promised": _numbers(asked.promised), "test": rows})
        return
    promised = ["promised, no site differs", *_law_cells(_numbers(asked.promised)), "", ""]
    table(
        ["test points", "coverage, exact", "in 95 % of calibrations", "Prop. 3.4", "by Ehm"],
        [promised, *([_words(row["test"]), *_law_cells(row), *_bound_cells(row)] for row in rows)],
    )


def _document(path: Path, label: str | None) -> "Plan | Calibration":
    """The plan or the calibration in a file, or what it has of one group."""
    from fedconformal.cli._files import read_one_of
    from fedconformal.cli._groups import calibration_of, plan_of
    from fedconformal.documents import Calibration, Plan

    document = read_one_of(path, Plan, Calibration)
    if isinstance(document, Calibration):
        return calibration_of(document, label, path)
    assert isinstance(document, Plan)
    return plan_of(document, label, path)


def shifts_of(texts: list[str]) -> dict[str, Any]:
    """How sites differ, as people type it: SITE=scale:1.5."""
    from fedconformal.cli import _parse

    return dict(_parse.pairs("--shift", _SHIFTS, texts, _shift))


def _shift(text: str) -> Any:
    """How one site differs."""
    from fedconformal import heterogeneity
    from fedconformal._tables import Dialect, read_column

    makers: dict[str, Callable[..., Any]] = {
        "scale": heterogeneity.scale,
        "location": heterogeneity.location,
        "power": heterogeneity.power,
        "contaminated": heterogeneity.contaminated,
    }
    kind, _, rest = text.partition(":")
    if kind == "scores":
        return heterogeneity.examples(read_column(Path(rest), dialect=Dialect(options=())))
    if kind not in makers:
        raise ValueError(f"there is no shift {kind!r}")
    return makers[kind](*map(float, rest.split(":")))


def _row(asked: "WhatIf", test: str | None) -> dict[str, Any]:
    bound, ehm = (None, None) if asked.max_faulty else asked.bounds(test)
    return {"test": test, **_numbers(asked.law(test)), "bound": bound, "ehm_bound": ehm}


def _numbers(law: "CoverageLaw") -> dict[str, Any]:
    return {"mean": law.mean(), "std": law.std(), "quantile_5": float(law.ppf(0.05))}


def _words(test: str | None) -> str:
    from fedconformal.heterogeneity import MIXTURE

    words = {None: "like the sites that do not differ", MIXTURE: "from all sites, by their shares"}
    return words.get(test, f"from site {test}")


def _law_cells(row: dict[str, Any]) -> list[str]:
    return [number(row["mean"]), f"≥ {number(row['quantile_5'])}"]


def _bound_cells(row: dict[str, Any]) -> list[str]:
    bounds = (row["bound"], row["ehm_bound"])
    return ["" if bound is None else f"≥ {number(max(0.0, bound))}" for bound in bounds]
