"""``fedconformal ledger``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedconformal.cli._options import Column, Json
from fedconformal.cli._show import print_json, say, table

if TYPE_CHECKING:
    from fedconformal.privacy import Ledger

app = typer.Typer(no_args_is_help=True, help="A site's account of privacy spent.")

LedgerFile = Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger.")]
DataSet = Annotated[str, typer.Argument(help="What the data are called.")]


@app.command()
def new(path: Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger file to make.")]) -> None:
    """Start a ledger."""
    from fedconformal.privacy import Ledger

    Ledger.create(path)
    say(f"made {path}")


@app.command()
def budget(
    path: LedgerFile,
    dataset: DataSet,
    epsilon: Annotated[float, typer.Argument(help="Privacy loss allowed in all.")],
    reason: Annotated[str | None, typer.Option(help="Why a budget that was set before is raised.")] = None,
) -> None:
    """Set the budget of a data set, or raise it with a reason."""
    from fedconformal.privacy import Ledger

    account = Ledger(path)
    if reason is None:
        account.set_budget(dataset, epsilon)
    else:
        account.raise_budget(dataset, epsilon, reason=reason)
    say(f"{dataset}: {epsilon:g} in all")


@app.command()
def accept(
    path: LedgerFile,
    dataset: DataSet,
    scores: Annotated[Path, typer.Argument(help="The new scores: CSV, Parquet or .npy.")],
    reason: Annotated[str, typer.Option(help="Why the scores are other ones, such as a new model.")],
    column: Column = None,
) -> None:
    """Accept new scores under an old name: they draw on the same budget."""
    from fedconformal._tables import read_column
    from fedconformal.privacy import Ledger, fingerprint

    Ledger(path).accept_data(dataset, fingerprint(read_column(scores, column, nan=True)), reason=reason)
    say(f"{dataset}: the new scores are accepted, and draw on the same budget")


@app.command()
def show(path: LedgerFile, json: Json = False) -> None:
    """Show budgets and what was spent on which plan."""
    from fedconformal.privacy import Ledger

    account = Ledger(path)
    budgets = _budgets(account)
    entries = [{key: str(value) for key, value in entry._asdict().items()} for entry in account.entries()]
    if json:
        print_json({"accounts": budgets, "entries": entries})
        return
    headers = list(budgets[0]) if budgets else ["dataset"]
    table(headers, [list(row.values()) for row in budgets], title=str(path))
    if entries:
        table(list(entries[0]), [[text[:24] for text in row.values()] for row in entries])


def _budgets(account: "Ledger") -> list[dict[str, str | float]]:
    """What was allowed, spent and is left of each data set."""
    return [
        {
            "dataset": name,
            "budget": float(account.budget(name)),
            "spent": float(account.spent(name)),
            "remaining": float(account.remaining(name)),
        }
        for name in account.datasets()
    ]
