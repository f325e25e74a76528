"""``fedconformal report``."""

from pathlib import Path
from typing import Annotated

import typer

from fedconformal.cli import _options as opt
from fedconformal.cli._show import say, working


def report(
    plan: Annotated[Path, typer.Argument(help="The plan to answer.")],
    scores: Annotated[Path, typer.Argument(help="Scores, or cases: CSV, Excel, Parquet or .npy.")],
    site: Annotated[str, typer.Option(help="This site's name.")],
    group: opt.GroupColumn = None,
    column: opt.Column = None,
    target: opt.Target = None,
    prediction: opt.Prediction = None,
    separator: opt.Separator = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    sign_with: Annotated[Path | None, typer.Option(help="Private key of this site.")] = None,
    ledger: Annotated[Path | None, typer.Option(help="For a private plan: this site's ledger.")] = None,
    dataset: Annotated[
        str | None, typer.Option(help="For a private plan: name of the data in the ledger.")
    ] = None,
    policy: opt.Policy = None,
    model: opt.Model = None,
    yes: opt.Yes = False,
    output: opt.Output = None,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """Answer a plan with this site's scores; show what it asks for and exactly what leaves."""
    from fedconformal import protocol
    from fedconformal._tables import Dialect
    from fedconformal.cli._files import (
        check_output,
        confirm,
        model_of,
        open_ledger,
        read,
        read_key,
        read_policy,
        send_out,
    )
    from fedconformal.cli._scores import column_of_labels, read_cases
    from fedconformal.documents import Plan

    check_output(output, force=force)
    dialect = Dialect(separator, decimal, encoding)
    asked = read(Plan, plan)
    labelled = column_of_labels(asked, group, target, plan)
    private = protocol.is_private(asked)
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
    if account is not None:  # before anything is charged or recorded
        confirm("Answer it?", ask=not yes)
    with working("preparing the answer"):
        answer = prepared.report(key=key, in_place=True).to_json()
    send_out(answer, ask=not yes and account is None, output=output, force=force, as_json=json)
