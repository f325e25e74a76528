"""Checks of a calibration: at a site, and at the coordinator who collects the answers."""

from pathlib import Path
from typing import Any

from fedconformal.cli._server import expand
from fedconformal.cli._show import number, print_json, table, working
from fedconformal.cli._site import read_scores, release
from fedconformal.documents import Calibration, Check, DocumentError
from fedconformal.heterogeneity import Assessment, CoverageCheck, LocalCheck, answer, assess
from fedconformal.heterogeneity import check as look
from fedconformal.heterogeneity._answer import filled_in
from fedconformal.privacy import Ledger


def check(
    calibration_file: Path,
    scores_file: Path,
    *,
    site: str | None,
    column: str | None,
    target: str | None,
    prediction: list[str] | None,
    confidence_level: float | None,
    epsilon: float | None,
    ledger: Path | None,
    dataset: str | None,
    ask: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Show the check to the site; then, if asked for, what would leave, and write it."""
    private = epsilon is not None
    _check_options(site, confidence_level, epsilon, ledger, dataset, output)
    calibration = Calibration.read(calibration_file)
    with working("reading and counting scores"):
        values = read_scores(calibration.plan, scores_file, column, target, prediction, private=private)
        found = look(
            calibration,
            filled_in(values) if private else values,
            site=site,
            confidence_level=confidence_level,
        )
    _show(found, as_json=as_json)
    if output is not None and site is not None:
        book = None if ledger is None else Ledger(ledger)
        made = answer(calibration, values, site=site, epsilon=epsilon, ledger=book, dataset=dataset)
        release(made.to_json(), ask=ask, output=output, force=force, as_json=False)


def _check_options(
    site: str | None,
    confidence_level: float | None,
    epsilon: float | None,
    ledger: Path | None,
    dataset: str | None,
    output: Path | None,
) -> None:
    """Refuse options that would be ignored."""
    if epsilon is not None and (output is None or ledger is None or dataset is None):
        raise ValueError("--private goes with --ledger, --dataset and -o, where the answer is written")
    if epsilon is None and (ledger is not None or dataset is not None):
        raise ValueError("--ledger and --dataset go with --private")
    if output is not None and site is None:
        raise ValueError("an answer needs the site's name: --site")
    if output is not None and confidence_level is not None:
        raise ValueError("--confidence-level does not go with -o: an answer is for all levels")


def _show(found: LocalCheck, *, as_json: bool) -> None:
    if as_json:
        levels = [_fields(level) for level in found.levels]
        print_json({"site": found.site, "n": found.n, "levels": levels, "sentence": found.sentence()})
        return
    table(
        ["level", "threshold", "covered", "coverage", "95 % interval", "p-value"],
        [
            [f"{level.confidence_level!r}", number(level.threshold), *_cells(level), f"{level.p_value:.3g}"]
            for level in found.levels
        ],
    )
    print(found.sentence())
    print("This holds for new cases only: none of them may have been used to train or to calibrate.")


def checks(calibration_file: Path, files: list[Path], *, as_json: bool) -> None:
    """All sites' answers side by side."""
    calibration = Calibration.read(calibration_file)
    with working("comparing"):
        result = assess(calibration, _read(files))
    if as_json:
        print_json(_assessment(result))
        return
    table(
        ["site", "epsilon", "level", "covered", "coverage", "95 % interval", "p-value", "adjusted", "short"],
        [
            [
                row.site,
                "exact" if row.epsilon is None else f"{row.epsilon:g}",
                f"{row.found.confidence_level!r}",
                *_cells(row.found),
                f"{row.found.p_value:.3g}",
                f"{row.adjusted_p_value:.3g}",
                "YES" if row.falls_short else "",
            ]
            for row in result.rows
        ],
    )
    print(result.sentence())


def _read(files: list[Path]) -> list[Check]:
    """The answers; every file that is none is named."""
    answers, problems = [], []
    for path in expand(files):
        try:
            answers.append(Check.read(path))
        except DocumentError as error:
            problems.append(str(error))
    if problems:
        raise ValueError(f"nothing was assessed, {len(problems)} refused: {'; '.join(problems)}")
    return answers


def _cells(check: CoverageCheck) -> list[str]:
    low, high = check.interval
    return [f"{check.covered} of {check.n}", f"{check.coverage:.4f}", f"{low:.4f} to {high:.4f}"]


def _fields(check: CoverageCheck) -> dict[str, Any]:
    return {
        "confidence_level": check.confidence_level,
        "threshold": "Infinity" if check.threshold == float("inf") else check.threshold,
        "n": check.n,
        "covered": check.covered,
        "coverage": check.coverage,
        "interval": list(check.interval),
        "confidence": check.confidence,
        "p_value": check.p_value,
    }


def _assessment(result: Assessment) -> dict[str, Any]:
    rows = [
        {
            "site": row.site,
            "epsilon": row.epsilon,
            **_fields(row.found),
            "adjusted_p_value": row.adjusted_p_value,
            "falls_short": row.falls_short,
        }
        for row in result.rows
    ]
    return {"sites": rows, "sentence": result.sentence()}
