"""``fedconformal report``."""

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedconformal.cli._options import (
    Column,
    Decimal,
    Encoding,
    Force,
    GroupColumn,
    Json,
    Model,
    Output,
    Policy,
    Prediction,
    Separator,
    Target,
    Yes,
)
from fedconformal.cli._show import say, working

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedconformal.documents import Plan


def report(
    plan: Annotated[Path, typer.Argument(help="The plan to answer.")],
    scores: Annotated[Path, typer.Argument(help="Scores, or cases: CSV, Excel, Parquet or .npy.")],
    site: Annotated[str, typer.Option(help="This site's name.")],
    group: GroupColumn = None,
    column: Column = None,
    target: Target = None,
    prediction: Prediction = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    sign_with: Annotated[Path | None, typer.Option(help="Private key of this site.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="For a private plan: this site's ledger.")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="For a private plan: what the data are called in the ledger.")
    ] = None,
    one_hot: Annotated[
        bool, typer.Option(help="For a private plan: write the one-hot vectors instead.")
    ] = False,
    policy: Policy = None,
    model: Model = None,
    yes: Yes = False,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Answer a plan with this site's scores: says what it asks for, and shows exactly what leaves."""
    from fedconformal import protocol
    from fedconformal._tables import Dialect
    from fedconformal.cli._files import check_output, model_of, open_ledger, read, read_key, read_policy
    from fedconformal.cli._groups import column_of_labels
    from fedconformal.cli._leaving import bins_sentence, leaving_sentence
    from fedconformal.cli._outgoing import confirm, send_out
    from fedconformal.cli._scores import read_cases
    from fedconformal.documents import Plan

    check_output(output, force=force)
    dialect = Dialect(separator, decimal, encoding)
    asked = read(Plan, plan)
    labelled = column_of_labels(asked, group, target, plan)
    _check_one_hot(asked, sign_with, wanted=one_hot)
    private = asked.privacy is not None
    allowed = read_policy(policy)
    protocol.admit(asked, policy=allowed, has_ledger=ledger is not None or dataset is not None)
    key = None if sign_with is None else read_key(sign_with)
    account = None if ledger is None else open_ledger(ledger)
    with working("reading scores"):
        labels, values, _ = read_cases(
            asked,
            scores,
            group=labelled,
            column=column,
            target=target,
            prediction=prediction,
            private=private,
            rng=None if account is None else account.generator(asked.digest, site),
            dialect=dialect,
        )
        prepared = protocol.prepare(
            asked,
            values,
            site=site,
            groups=labels,
            policy=allowed,
            model=model_of(model),
            ledger=account,
            dataset=dataset,
        )
        say(prepared.request.sentence)
    if account is not None:  # what is charged or recorded is asked for before that happens
        confirm("Answer it?", ask=not yes)
    with working("ranking scores"):
        if one_hot:
            content, sentence = _vectors(asked, prepared.bins()[None]), bins_sentence(asked)
        else:
            answer = prepared.report(key=key, in_place=not private)
            content, sentence = answer.to_json(), leaving_sentence(asked, answer)
    send_out(content, sentence, ask=not yes and account is None, output=output, force=force, as_json=json)


def _check_one_hot(plan: "Plan", sign_with: Path | None, *, wanted: bool) -> None:
    """Refuse one-hot vectors where there can be none."""
    if wanted and sign_with is not None:
        raise ValueError("--sign-with does not go with --one-hot: nobody signs a sum")
    if wanted and plan.privacy is None:
        raise ValueError("this plan is not private: there are no bins for --one-hot to release")
    if wanted and plan.is_grouped:
        raise ValueError("--one-hot does not go with groups")


def _vectors(plan: "Plan", bins: "Sequence[int]") -> str:
    """A release as one-hot vectors, to be fed to secure aggregation."""
    from fedconformal import privacy

    return dumps({"plan": plan.digest, "one_hot": privacy.one_hot(tuple(bins), plan).tolist()})
