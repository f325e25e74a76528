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
    ledger: opt.LedgerFile = None,
    dataset: opt.DataSet = None,
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
    from fedconformal.cli import _files
    from fedconformal.cli._scores import column_of_labels, read_cases
    from fedconformal.documents import Plan

    _files.check_output(output, force=force)
    dialect = Dialect(separator, decimal, encoding)
    question = _files.read(Plan, plan)
    group = column_of_labels(question, group, target, plan)
    limits = _files.read_policy(policy)
    protocol.admit(question, policy=limits, has_ledger=ledger is not None or dataset is not None)
    key = None if sign_with is None else _files.read_key(sign_with)
    account = None if ledger is None else _files.open_ledger(ledger)
    with working("reading scores"):
        labels, values, _ = read_cases(
            question,
            scores,
            group=group,
            column=column,
            target=target,
            prediction=prediction,
            private=protocol.is_private(question),
            rng=None if account is None else account.generator(question.digest, site),
            dialect=dialect,
        )
        prepared = protocol.prepare(
            question,
            values,
            site=site,
            groups=labels,
            key=key,
            policy=limits,
            model=_files.model_of(model),
            in_place=True,
            ledger=account,
            dataset=dataset,
        )
        say(prepared.sentence)
    if account is not None and not yes:  # before anything is charged or recorded
        _files.confirm(output)
    with working("preparing the answer"):
        answer = prepared.report().to_json()
    _files.send_out(answer, ask=not yes and account is None, output=output, force=force, as_json=json)
