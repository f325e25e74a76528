"""The commands of a site's own books: its key, and its ledger."""

from pathlib import Path
from typing import Annotated

import typer

from fedconformal.cli._options import (
    Column,
    Force,
    Json,
    check_output,
)
from fedconformal.cli._show import say

keys = typer.Typer(no_args_is_help=True, help="Ed25519 keys of a site.")


@keys.command("new")
def keys_new(
    name: Annotated[str, typer.Argument(help="The site's name: the key goes to NAME.key.")] = "site",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it instead.")] = None,
    force: Force = False,
) -> None:
    """Make a key: the private part goes to a file, the public part is printed."""
    from fedconformal._outputs import write_text
    from fedconformal.signing import SigningKey

    path = output or Path(f"{name}.key")
    check_output(path, force=force)
    made = SigningKey.new()
    write_text(path, made.to_pem().decode(), force=force, mode=0o600)
    say(f"wrote {path}: keep it at the site; the plan lists the public key")
    print(made.public_key)


@keys.command("show")
def keys_show(key: Annotated[Path, typer.Argument(help="A private key file.")]) -> None:
    """Print the public part of a key."""
    from fedconformal.signing import SigningKey

    print(SigningKey.from_pem(key.read_bytes()).public_key)


ledger = typer.Typer(no_args_is_help=True, help="A site's account of privacy spent.")


@ledger.command("new")
def ledger_new(path: Annotated[Path, typer.Argument(help="The ledger file to make.")]) -> None:
    """Start a ledger."""
    from fedconformal.privacy import Ledger

    Ledger.create(path)
    say(f"made {path}")


@ledger.command("budget")
def ledger_budget(
    path: Annotated[Path, typer.Argument(help="The ledger.")],
    dataset: Annotated[str, typer.Argument(help="What the data are called.")],
    epsilon: Annotated[float, typer.Argument(help="Privacy loss allowed in all.")],
    reason: Annotated[str | None, typer.Option(help="Why a budget that was set before is raised.")] = None,
) -> None:
    """Set the budget of a data set, or raise it with a reason."""
    from fedconformal.privacy import Ledger

    book = Ledger(path)
    if reason is None:
        book.set_budget(dataset, epsilon)
    else:
        book.raise_budget(dataset, epsilon, reason=reason)
    say(f"{dataset}: {epsilon:g} in all")


@ledger.command("accept")
def ledger_accept(
    path: Annotated[Path, typer.Argument(help="The ledger.")],
    dataset: Annotated[str, typer.Argument(help="What the data are called.")],
    scores: Annotated[Path, typer.Argument(help="The new scores: CSV, Parquet or .npy.")],
    reason: Annotated[str, typer.Option(help="Why the scores are other ones, such as a new model.")],
    column: Column = None,
) -> None:
    """Accept new scores under an old name: they draw on the same budget."""
    from fedconformal._tables import read_column
    from fedconformal.privacy import Ledger
    from fedconformal.privacy._ledger import fingerprint

    Ledger(path).accept_data(dataset, fingerprint(read_column(scores, column, nan=True)), reason=reason)
    say(f"{dataset}: the new scores are accepted, and draw on the same budget")


@ledger.command("show")
def ledger_show(path: Annotated[Path, typer.Argument(help="The ledger.")], json: Json = False) -> None:
    """Show budgets and what was spent on which plan."""
    from fedconformal.cli import _site

    _site.show_ledger(path, as_json=json)
