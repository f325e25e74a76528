"""``fedconformal report``."""

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedconformal.cli._options import (
    Column,
    Force,
    GroupColumn,
    Json,
    Output,
    Prediction,
    Target,
    Yes,
)
from fedconformal.cli._show import working

if TYPE_CHECKING:
    from fedconformal._typing import Floats
    from fedconformal.documents import Plan
    from fedconformal.privacy import Ledger


def report(
    plan: Annotated[Path, typer.Argument(help="The plan to answer.")],
    scores: Annotated[Path, typer.Argument(help="Scores: CSV, Parquet or .npy.")],
    site: Annotated[str, typer.Option(help="This site's name.")],
    group: GroupColumn = None,
    column: Column = None,
    target: Target = None,
    prediction: Prediction = None,
    sign_with: Annotated[Path | None, typer.Option(help="Private key of this site.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="For a private plan: this site's ledger.")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="For a private plan: what the data are called in the ledger.")
    ] = None,
    one_hot: Annotated[
        bool, typer.Option(help="For a private plan: write the one-hot vectors instead.")
    ] = False,
    yes: Yes = False,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Answer a plan with this site's scores: shows exactly what is about to leave."""
    from fedconformal import protocol
    from fedconformal._outputs import warn_if_shared
    from fedconformal.cli._files import check_output
    from fedconformal.cli._groups import check_column
    from fedconformal.cli._leaving import bins_sentence, leaving_sentence
    from fedconformal.cli._outgoing import send_out
    from fedconformal.cli._scores import read_scores
    from fedconformal.documents import Plan, SigningKey
    from fedconformal.privacy import Ledger

    check_output(output, force=force)
    asked = Plan.read(plan)
    check_column(asked, group, plan)
    _check_one_hot(asked, sign_with, wanted=one_hot)
    private = asked.privacy is not None
    key = None if sign_with is None else SigningKey.from_pem(sign_with.read_bytes())
    if sign_with is not None:
        warn_if_shared(sign_with)
    account = None if ledger is None or not private else Ledger(ledger)
    with working("reading and ranking scores"):
        labels, column = _labels(scores, group, column, target)
        values = read_scores(
            asked, scores, column=column, target=target, prediction=prediction, private=private
        )
        if one_hot:
            content = _vectors(asked, values, site=site, ledger=account, dataset=dataset)
            sentence = bins_sentence(asked)
        else:
            answer = protocol.report(
                asked,
                values,
                site=site,
                groups=labels,
                key=key,
                in_place=not private,
                ledger=account,
                dataset=dataset,
            )
            content, sentence = answer.to_json(), leaving_sentence(asked, answer)
    send_out(content, sentence, ask=not yes, output=output, force=force, as_json=json)


def _check_one_hot(plan: "Plan", sign_with: Path | None, *, wanted: bool) -> None:
    """Refuse one-hot vectors where there can be none."""
    if wanted and sign_with is not None:
        raise ValueError("--sign-with does not go with --one-hot: nobody signs a sum")
    if wanted and plan.is_grouped:
        raise ValueError("--one-hot does not go with groups")


def _labels(
    path: Path, group: str | None, column: str | None, target: str | None
) -> tuple[list[str] | None, str | None]:
    """The group of each case, and the column of scores: the only other one, if none is named."""
    from fedconformal._tables import read_labels

    if group is None:
        return None, column
    labels, others = read_labels(path, group)
    if column is None and target is None and len(others) == 1:
        column = others[0]
    return labels, column


def _vectors(
    plan: "Plan", values: "Floats", *, site: str, ledger: "Ledger | None", dataset: str | None
) -> str:
    """A release as one-hot vectors, to be fed to secure aggregation."""
    from fedconformal import privacy, protocol

    bins = protocol.private_bins(plan, values, site=site, ledger=ledger, dataset=dataset)
    return dumps({"plan": plan.digest, "one_hot": privacy.one_hot(bins, plan).tolist()})
