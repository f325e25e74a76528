"""What a site does: report, and look at its ledger."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fedconformal import scores as score_functions
from fedconformal import site as site_room
from fedconformal._outputs import write_text
from fedconformal._tables import Floats, numbers, read_column, read_table
from fedconformal.cli._show import print_json, say, table, working
from fedconformal.documents import Plan
from fedconformal.privacy import Ledger, one_hot
from fedconformal.signing import SigningKey


def report(
    plan_file: Path,
    scores_file: Path,
    *,
    site: str,
    column: str | None,
    target: str | None,
    prediction: list[str] | None,
    sign_with: Path | None,
    ledger: Path | None,
    dataset: str | None,
    one_hot: bool,
    ask: bool,
    output: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Make the report, show it, ask, and write it."""
    plan = Plan.read(plan_file)
    private = plan.privacy is not None
    key, book = opened(sign_with, ledger if private else None)
    if one_hot and sign_with is not None:
        raise ValueError("--sign-with does not go with --one-hot: nobody signs a sum")
    with working("reading and ranking scores"):
        values = read_scores(plan, scores_file, column, target, prediction, private=private)
        if one_hot:
            content = _vectors(plan, values, site=site, ledger=book, dataset=dataset)
        else:
            made = site_room.report(
                plan, values, site=site, key=key, in_place=not private, ledger=book, dataset=dataset
            )
            content = made.to_json()
    release(content, ask=ask, output=output, force=force, as_json=as_json)


def opened(sign_with: Path | None, ledger: Path | None) -> tuple[SigningKey | None, Ledger | None]:
    """The site's key and ledger, where they are given."""
    key = None if sign_with is None else SigningKey.from_pem(sign_with.read_bytes())
    return key, None if ledger is None else Ledger(ledger)


def read_scores(
    plan: Plan,
    path: Path,
    column: str | None,
    target: str | None,
    prediction: list[str] | None,
    *,
    private: bool,
) -> Floats:
    """A column of scores, or scores from truth and prediction; for a private answer none is refused."""
    if target is None:
        return read_column(path, column, nan=private)
    return (_computed_privately if private else _computed)(plan, path, target, prediction)


def release(content: str, *, ask: bool, output: Path | None, force: bool, as_json: bool) -> None:
    """Show exactly what is about to leave; ask a person who is there."""
    if not as_json or output is not None:
        say("This is everything that leaves the site:")
        say(content)
    if ask and sys.stdin.isatty():
        import typer

        typer.confirm("Send it?", abort=True, err=True)
    if output is not None:
        write_text(output, content + "\n", force=force)
        say(f"wrote {output}")
    if as_json:
        print(content)


def _vectors(plan: Plan, values: Floats, *, site: str, ledger: Ledger | None, dataset: str | None) -> str:
    """A release as one-hot vectors, to be fed to secure aggregation."""
    bins = site_room.private_bins(plan, values, site=site, ledger=ledger, dataset=dataset)
    return json.dumps({"plan": plan.digest, "one_hot": one_hot(bins, plan).tolist()})


def _computed(plan: Plan, path: Path, target: str, prediction: list[str] | None) -> Floats:
    """Scores from truth and prediction, as the plan says."""
    if plan.score is None:
        raise ValueError("--target needs a plan that fixes the score (plan --score)")
    if not prediction:
        raise ValueError("--target needs --prediction")
    rule = score_functions.from_name(plan.score.name, **plan.score.parameters())
    frame = read_table(path)
    predicted = numbers(path, frame, prediction)
    truth = numbers(path, frame, [target])[:, 0]
    options: dict[str, Any] = {}
    if rule.kind == "labels":
        if (truth != truth.astype(int)).any():
            raise ValueError(f"{path}: column {target!r} must hold class numbers 0, 1, ...")
        truth = truth.astype(int)
        if plan.score.randomized:
            options["u"] = np.random.default_rng()
    elif plan.score.name == "absolute":
        predicted = predicted[:, 0] if predicted.shape[1] == 1 else predicted
    values: Floats = rule.score(truth, predicted, **options)
    return values


def _computed_privately(plan: Plan, path: Path, target: str, prediction: list[str] | None) -> Floats:
    """The same for a private plan: a case without a score counts as NaN, and no error tells of it."""
    columns = {name: read_column(path, name, nan=True) for name in (target, *(prediction or ()))}
    if plan.score is None or not prediction:
        raise ValueError("--target needs --prediction, and a plan that fixes the score (plan --score)")
    rule = score_functions.from_name(plan.score.name, **plan.score.parameters())
    out = np.full(columns[target].size, np.nan)
    predicted = np.stack([columns[name] for name in prediction], axis=1)
    options: dict[str, Any] = {"u": np.random.default_rng()} if plan.score.randomized else {}
    for i, truth in enumerate(columns[target]):
        row = predicted[i : i + 1, 0] if rule.name == "absolute" else predicted[i : i + 1]
        label = rule.kind == "labels"
        if np.isfinite(truth) and not (label and truth != int(truth)):
            with contextlib.suppress(ValueError, TypeError):
                out[i] = rule.score(np.array([int(truth) if label else truth]), row, **options)[0]
    return out


def show_ledger(path: Path, *, as_json: bool) -> None:
    """Budgets, what is spent, and every entry."""
    book = Ledger(path)
    accounts = [
        {
            "dataset": name,
            "budget": float(book.budget(name)),
            "spent": float(book.spent(name)),
            "remaining": float(book.remaining(name)),
        }
        for name in book.datasets()
    ]
    entries = [{key: str(value) for key, value in entry._asdict().items()} for entry in book.entries()]
    if as_json:
        print_json({"accounts": accounts, "entries": entries})
        return
    table(
        list(accounts[0]) if accounts else ["dataset"],
        [list(row.values()) for row in accounts],
        title=str(path),
    )
    if entries:
        table(list(entries[0]), [[text[:24] for text in row.values()] for row in entries])
