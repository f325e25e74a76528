"""``fedconformal checks``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal.cli._options import Json, OneLabel
from fedconformal.cli._show import print_json, table, working

if TYPE_CHECKING:
    from fedconformal.documents import Check
    from fedconformal.heterogeneity import SiteCheck


def checks(
    calibration: Annotated[Path, typer.Argument(help="The calibration that the sites checked.")],
    answers: Annotated[list[Path], typer.Argument(help="Answer files, or directories of them.")],
    label: OneLabel = None,
    json: Json = False,
) -> None:
    """Compare the sites' checks: coverage with intervals, and who falls short."""
    from fedconformal import heterogeneity
    from fedconformal.cli._files import read
    from fedconformal.cli._groups import calibration_of
    from fedconformal.documents import Calibration

    published = calibration_of(read(Calibration, calibration), label, calibration)
    with working("comparing"):
        result = heterogeneity.assess(published, _read(answers))
    if json:
        print_json({"sites": [_fields(row) for row in result.rows], "sentence": result.sentence()})
        return
    table(
        ["site", "epsilon", "level", "covered", "coverage", "95 % interval", "p-value", "adjusted", "short"],
        [_cells(row) for row in result.rows],
    )
    print(result.sentence())


def _read(files: list[Path]) -> "list[Check]":
    """The answers; every file that is none is named."""
    from fedconformal.cli._files import expand, read
    from fedconformal.documents import Check, DocumentError

    answers, problems = [], []
    for path in expand(files):
        try:
            answers.append(read(Check, path))
        except DocumentError as error:
            problems.append(str(error))
    if problems:
        raise ValueError(f"nothing was assessed, {len(problems)} refused: {'; '.join(problems)}")
    return answers


def _cells(row: "SiteCheck") -> list[str]:
    from fedconformal.cli._coverage import cells

    return [
        row.site,
        "exact" if row.epsilon is None else f"{row.epsilon:g}",
        f"{row.found.confidence_level!r}",
        *cells(row.found),
        f"{row.found.p_value:.3g}",
        f"{row.adjusted_p_value:.3g}",
        "YES" if row.falls_short else "",
    ]


def _fields(row: "SiteCheck") -> dict[str, Any]:
    from fedconformal.cli._coverage import fields

    return {
        "site": row.site,
        "epsilon": row.epsilon,
        **fields(row.found),
        "adjusted_p_value": row.adjusted_p_value,
        "falls_short": row.falls_short,
    }
