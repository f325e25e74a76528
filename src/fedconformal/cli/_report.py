"""``fedconformal report``."""

from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedconformal._text import count
from fedconformal.cli import _options as opt
from fedconformal.cli._show import say, working

if TYPE_CHECKING:
    from fedconformal.documents import Plan, Report


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
        str | None, typer.Option(help="For a private plan: what the data are called in the ledger.")
    ] = None,
    one_hot: Annotated[
        bool, typer.Option(help="For a private plan: write the one-hot vectors instead.")
    ] = False,
    policy: opt.Policy = None,
    model: opt.Model = None,
    yes: opt.Yes = False,
    output: opt.Output = None,
    force: opt.Force = False,
    json: opt.Json = False,
) -> None:
    """Answer a plan with this site's scores: says what it asks for, and shows exactly what leaves."""
    from fedconformal import privacy, protocol
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
    if one_hot and sign_with is not None:
        raise ValueError("--sign-with does not go with --one-hot: nobody signs a sum")
    if one_hot and asked.privacy is None:
        raise ValueError("this plan is not private: there are no bins for --one-hot to release")
    if one_hot and asked.is_grouped:
        raise ValueError("--one-hot does not go with groups")
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
            vectors = privacy.one_hot(tuple(prepared.bins()[None]), asked).tolist()
            content, sentence = dumps({"plan": asked.digest, "one_hot": vectors}), _bins_sentence(asked)
        else:
            answer = prepared.report(key=key, in_place=not private)
            content, sentence = answer.to_json(), _leaving_sentence(asked, answer)
    send_out(content, sentence, ask=not yes and account is None, output=output, force=force, as_json=json)


def _leaving_sentence(plan: "Plan", report: "Report") -> str:
    """Describe how many of the site's scores leave, or of a private answer how many bins."""
    if plan.privacy is not None:
        return _bins_sentence(plan, n_answers=len(report.parts))
    n = sum(part.n for part in report.parts)
    # Infinity is no score, and levels may share a rank.
    ranks = [
        {rank for level in part.levels for rank in level.ranks if rank <= part.n} for part in report.parts
    ]
    sent = sum(map(len, ranks))
    groups = f", from {count(len(report.parts), 'group')}" if plan.is_grouped else ""
    if not sent:
        return f"None of your {count(n, 'score')} leaves{groups}: there are too few for the rank asked for."
    return f"{sent:,} of your {count(n, 'score')} {'leaves' if sent == 1 else 'leave'}{groups}."


def _bins_sentence(plan: "Plan", *, n_answers: int = 1) -> str:
    """Describe what leaves with a private answer for this many groups."""
    drawn, n_bins = n_answers * len(plan.confidence_levels), plan.bins.n_bins if plan.bins else 0
    if drawn == 1:
        return f"One of {n_bins:,} public bins leaves, drawn at random; no score does."
    return f"{drawn:,} names of bins leave, out of {n_bins:,} public ones, drawn at random; no score does."
