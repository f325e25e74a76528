"""``fedconformal keys``, ``ledger`` and ``policy``: what a site keeps."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from fedconformal._text import count
from fedconformal.cli import _options as opt
from fedconformal.cli._show import paragraph, print_json, say, table

# -- keys --------------------------------------------------------------------------------------------------


def new_key(
    name: Annotated[str, typer.Argument(help="The site's name: the key goes to NAME.key.")] = "site",
    output: opt.Output = None,
    force: opt.Force = False,
) -> None:
    """Make a key: the private part goes to a file, the public part is printed."""
    from fedconformal._files import STANDARD
    from fedconformal.cli._files import check_output, deliver_text
    from fedconformal.documents import SigningKey

    path = output or Path(f"{name}.key")
    check_output(path, force=force)
    key = SigningKey.new()
    note = ": keep it at the site; the plan lists the public key"
    deliver_text(key.to_pem().decode(), path, force=force, mode=0o600, note=note)
    (say if path == STANDARD else print)(key.public_key)


def show_key(key: Annotated[Path, typer.Argument(help="A private key file.")]) -> None:
    """Print the public part of a key."""
    from fedconformal.cli._files import read_key

    print(read_key(key).public_key)


# -- ledger ------------------------------------------------------------------------------------------------

LedgerFile = Annotated[Path, typer.Argument(metavar="LEDGER", help="The ledger.")]
DataSet = Annotated[str, typer.Argument(help="Name of the data set.")]
_COLUMNS = ("number", "time", "kind", "dataset", "plan", "site", "epsilon", "answer", "numbers", "reason")


def new_ledger(path: LedgerFile) -> None:
    """Start a ledger."""
    from fedconformal._files import STANDARD
    from fedconformal.privacy import Ledger

    if path == STANDARD:
        raise ValueError("a ledger must be a file: it cannot be standard output")
    Ledger.create(path)
    say(f"created {path}")


def set_budget(
    path: LedgerFile,
    dataset: DataSet,
    epsilon: Annotated[float, typer.Argument(help="Total privacy loss that is allowed.")],
    reason: Annotated[str | None, typer.Option(help="Reason to raise an earlier budget.")] = None,
) -> None:
    """Set the budget of a data set, or raise it with a reason."""
    from fedconformal.cli._files import open_ledger

    ledger = open_ledger(path)
    if reason is None:
        ledger.set_budget(dataset, epsilon)
    else:
        ledger.raise_budget(dataset, epsilon, reason=reason)
    say(f"{dataset}: budget {epsilon:g}")


def accept_scores(
    path: LedgerFile,
    dataset: DataSet,
    scores: Annotated[Path, typer.Argument(help="The new scores: CSV, Excel, Parquet or .npy.")],
    reason: Annotated[str, typer.Option(help="Reason for the new scores, such as a new model.")],
    column: opt.Column = None,
    separator: opt.Separator = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
) -> None:
    """Accept new scores under an old name: they draw on the same budget."""
    from fedconformal._tables import Dialect, read_column
    from fedconformal.cli._files import open_ledger
    from fedconformal.privacy import fingerprint

    values = read_column(scores, column, nan=True, dialect=Dialect(separator, decimal, encoding))
    open_ledger(path).accept_data(dataset, fingerprint(values), reason=reason)
    say(f"{dataset}: the new scores are accepted, and draw on the same budget")


def check_ledger(path: LedgerFile) -> None:
    """Check that no entry of a ledger was changed or lost."""
    from fedconformal.cli._files import open_ledger

    say(f"{path}: {count(open_ledger(path).check(), 'entry', 'entries')}, none changed")


def show_ledger(path: LedgerFile, json: opt.Json = False) -> None:
    """Show budgets, what was spent on which plan, and how many exact answers were given."""
    from fedconformal.cli._files import open_ledger

    ledger = open_ledger(path)
    entries = ledger.entries()
    numbers: dict[str, list[int]] = {}
    for entry in entries:
        if entry.numbers is not None:
            numbers.setdefault(entry.dataset, []).append(entry.numbers)
    budgets: list[dict[str, Any]] = [
        {
            "dataset": name,
            "budget": float(ledger.budget(name)),
            "spent": float(ledger.spent(name)),
            "remaining": float(ledger.remaining(name)),
        }
        for name in ledger.datasets()
    ]
    if json:
        exact = [
            {"dataset": name, "answers": len(sent), "numbers": sum(sent)}
            for name, sent in sorted(numbers.items())
        ]
        log = [{key: str(value) for key, value in entry._asdict().items()} for entry in entries]
        print_json({"accounts": budgets, "exact": exact, "entries": log})
        return
    table(budgets, title=str(path))
    for name, sent in sorted(numbers.items()):
        scores = count(sum(sent), "exact score")
        paragraph(f"{name}: {count(len(sent), 'exact answer')} given, with {scores} in all")
    if entries:
        table([{name: str(getattr(entry, name) or "")[:25] for name in _COLUMNS} for entry in entries])


# -- policy ------------------------------------------------------------------------------------------------


def new_policy(
    path: Annotated[Path, typer.Argument(help="Where to write it.")] = Path("site.toml"),
    force: opt.Force = False,
) -> None:
    """Write a policy with the defaults and an explanation of every line, to be edited."""
    from importlib.resources import files

    from fedconformal.cli._files import deliver_text
    from fedconformal.protocol import SitePolicy

    template = files("fedconformal.cli").joinpath("policy.toml").read_text(encoding="utf-8")
    text = template.format(**asdict(SitePolicy()))
    deliver_text(text, path, force=force, note=f": edit it, then answer with --policy {path}")


def show_policy(
    policy: Annotated[Path, typer.Argument(help="A policy file.")],
    json: opt.Json = False,
) -> None:
    """Show a policy, including the defaults."""
    from fedconformal.cli._files import read_policy

    held = asdict(read_policy(policy))
    if json:
        print_json(held)
    else:
        table([{"limit": name, "value": _text(value)} for name, value in held.items()])


def _text(value: object) -> str:
    if value is None:
        return "default"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
