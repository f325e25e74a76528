"""``fedconformal ledger``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedconformal.cli._command import add, new_app
from fedconformal.cli._options import Column, Decimal, Encoding, Json, Separator
from fedconformal.cli._show import print_json, say, table

if TYPE_CHECKING:
    from fedconformal.privacy import Entry

app = new_app(help="A site's account of its privacy budget.")

LedgerFile = Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger.")]
_COLUMNS = ("number", "time", "kind", "dataset", "plan", "site", "epsilon", "answer", "numbers", "reason")
DataSet = Annotated[str, typer.Argument(help="Name of the data set.")]


def new(path: Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger file to make.")]) -> None:
    """Start a ledger."""
    from fedconformal._inputs import STANDARD
    from fedconformal.privacy import Ledger

    if path == STANDARD:
        raise ValueError("a ledger must be a file: it cannot be standard output")
    Ledger.create(path)
    say(f"created {path}")


def budget(
    path: LedgerFile,
    dataset: DataSet,
    epsilon: Annotated[float, typer.Argument(help="Total privacy loss that is allowed.")],
    reason: Annotated[str | None, typer.Option(help="Reason to raise an earlier budget.")] = None,
) -> None:
    """Set the budget of a data set, or raise it with a reason."""
    from fedconformal.cli._files import open_ledger

    account = open_ledger(path)
    if reason is None:
        account.set_budget(dataset, epsilon)
    else:
        account.raise_budget(dataset, epsilon, reason=reason)
    say(f"{dataset}: budget {epsilon:g}")


def accept(
    path: LedgerFile,
    dataset: DataSet,
    scores: Annotated[Path, typer.Argument(help="The new scores: CSV, Excel, Parquet or .npy.")],
    reason: Annotated[str, typer.Option(help="Reason for the new scores, such as a new model.")],
    column: Column = None,
    separator: Separator = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
) -> None:
    """Accept new scores under an old name: they draw on the same budget."""
    from fedconformal._tables import Dialect, read_column
    from fedconformal.cli._files import open_ledger
    from fedconformal.privacy import fingerprint

    dialect = Dialect(separator, decimal, encoding)
    values = read_column(scores, column, nan=True, dialect=dialect)
    open_ledger(path).accept_data(dataset, fingerprint(values), reason=reason)
    say(f"{dataset}: the new scores are accepted, and draw on the same budget")


def check(path: LedgerFile) -> None:
    """Check that no entry of a ledger was changed or lost."""
    from fedconformal._text import count
    from fedconformal.cli._files import open_ledger

    say(f"{path}: {count(open_ledger(path).check(), 'entry', 'entries')}, none changed")


def show(path: LedgerFile, json: Json = False) -> None:
    """Show budgets, what was spent on which plan, and how many exact answers were given."""
    from fedconformal._text import count
    from fedconformal.cli._files import open_ledger

    account = open_ledger(path)
    log = account.entries()
    exact = _exact(log)
    budgets: list[dict[str, str | float]] = [
        {
            "dataset": name,
            "budget": float(account.budget(name)),
            "spent": float(account.spent(name)),
            "remaining": float(account.remaining(name)),
        }
        for name in account.datasets()
    ]
    entries = [{key: str(value) for key, value in entry._asdict().items()} for entry in log]
    if json:
        print_json({"accounts": budgets, "exact": exact, "entries": entries})
        return
    headers = list(budgets[0]) if budgets else ["dataset"]
    table(headers, [list(row.values()) for row in budgets], title=str(path))
    for row in exact:
        answers, scores = count(row["answers"], "exact answer"), count(row["numbers"], "exact score")
        print(f"{row['dataset']}: {answers} given, with {scores} in all")
    if log:
        table(_COLUMNS, [[str(getattr(entry, name) or "")[:25] for name in _COLUMNS] for entry in log])


def _exact(log: Sequence["Entry"]) -> list[dict[str, Any]]:
    """Count the exact answers of each data set, and the scores that have left with them."""
    given: dict[str, list[int]] = {}
    for entry in log:
        if entry.numbers is not None:
            given.setdefault(entry.dataset, []).append(entry.numbers)
    return [
        {"dataset": name, "answers": len(numbers), "numbers": sum(numbers)}
        for name, numbers in sorted(given.items())
    ]


add(app, new, ["fedconformal ledger new site.db"])
add(app, budget, ["fedconformal ledger budget site.db trial 4"])
add(app, accept, ['fedconformal ledger accept site.db trial scores.csv --reason "a new model"'])
add(app, check, ["fedconformal ledger check site.db"])
add(app, show, ["fedconformal ledger show site.db"])
