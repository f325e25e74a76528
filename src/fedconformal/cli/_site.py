"""``fedconformal keys``, ``ledger`` and ``policy``: what a site keeps."""

from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from secrets import token_hex
from typing import Any

from fedconformal._files import STANDARD
from fedconformal._tables import Dialect, read_column
from fedconformal._text import count
from fedconformal.cli._files import Output, open_ledger, read_key, read_policy
from fedconformal.cli._show import paragraph, print_json, say, table
from fedconformal.documents import SigningKey
from fedconformal.privacy import Ledger, fingerprint
from fedconformal.protocol import SitePolicy

# -- keys ------------------------------------------------------------------------------


def new_key(
    name: str = "site", *, output: Path | None = None, force: bool = False
) -> None:
    """Make a key: the private part goes to a file, the public part is printed."""
    out = Output(output or Path(f"{name}.key"), force)
    out.check()
    key = SigningKey.new()
    note = ": keep it at the site; the plan lists the public key"
    out.write(key.to_pem().decode(), mode=0o600, note=note)
    (say if out.file is None else print)(key.public_key)


def show_key(key: Path) -> None:
    """Print the public part of a key."""
    print(read_key(key).public_key)


# -- ledger ----------------------------------------------------------------------------

_COLUMNS = (
    "number",
    "time",
    "kind",
    "dataset",
    "plan",
    "site",
    "epsilon",
    "answer",
    "numbers",
    "reason",
)


def new_ledger(ledger: Path) -> None:
    """Start a ledger."""
    if ledger == STANDARD:
        raise ValueError("a ledger must be a file: it cannot be standard output")
    Ledger.create(ledger)
    say(f"created {ledger}")


def set_budget(
    ledger: Path, dataset: str, epsilon: float, *, reason: str | None = None
) -> None:
    """Set the budget of a data set, or raise it with a reason."""
    account = open_ledger(ledger)
    if reason is None:
        account.set_budget(dataset, epsilon)
    else:
        account.raise_budget(dataset, epsilon, reason=reason)
    say(f"{dataset}: budget {epsilon:g}")


def accept_scores(
    ledger: Path,
    dataset: str,
    scores: Path,
    *,
    reason: str,
    column: str | None = None,
    dialect: Dialect,
) -> None:
    """Accept new scores under an old name: they draw on the same budget."""
    values = read_column(scores, column, nan=True, dialect=dialect)
    open_ledger(ledger).accept_data(dataset, fingerprint(values), reason=reason)
    say(f"{dataset}: the new scores are accepted, and draw on the same budget")


def check_ledger(ledger: Path, *, seal: str | None = None) -> None:
    """Check that no entry of a ledger was changed or lost."""
    say(
        f"{ledger}: {count(open_ledger(ledger).check(seal), 'entry', 'entries')}, none"
        " changed"
    )


def reseal_ledger(ledger: Path, *, reason: str) -> None:
    """Accept that entries of a ledger are lost: every budget counts as spent until it
    is raised.
    """
    entries = Ledger.reseal(ledger, reason=reason).check()
    say(
        f"{ledger}: resealed at {count(entries, 'entry', 'entries')}; every budget"
        " counts as spent"
    )


def show_ledger(ledger: Path, *, json: bool = False) -> None:
    """Show budgets, what was spent on which plan, and how many exact answers were
    given.
    """
    account = open_ledger(ledger)
    entries = account.entries()
    numbers: dict[str, list[int]] = {}
    for entry in entries:
        if entry.numbers is not None:
            numbers.setdefault(entry.dataset, []).append(entry.numbers)
    budgets: list[dict[str, Any]] = [
        {
            "dataset": name,
            "budget": float(account.budget(name)),
            "spent": float(account.spent(name)),
            "remaining": float(account.remaining(name)),
        }
        for name in account.datasets()
    ]
    if json:
        exact = [
            {"dataset": name, "answers": len(sent), "numbers": sum(sent)}
            for name, sent in sorted(numbers.items())
        ]
        log = [
            {key: str(value) for key, value in entry._asdict().items()}
            for entry in entries
        ]
        print_json({"accounts": budgets, "exact": exact, "entries": log})
        return
    table(budgets, title=str(ledger))
    for name, sent in sorted(numbers.items()):
        scores = count(sum(sent), "exact score")
        paragraph(
            f"{name}: {count(len(sent), 'exact answer')} given, with {scores} in all"
        )
    if entries:
        shown = [
            {name: getattr(entry, name) or None for name in _COLUMNS}
            for entry in entries
        ]
        table(
            [
                {name: value and str(value)[:25] for name, value in row.items()}
                for row in shown
            ]
        )


# -- policy ----------------------------------------------------------------------------


def new_policy(path: Path = Path("site.toml"), *, force: bool = False) -> None:
    """Write a policy with the defaults and an explanation of every line, to be
    edited.
    """
    template = (
        files("fedconformal.cli").joinpath("policy.toml").read_text(encoding="utf-8")
    )
    text = template.format(**{**asdict(SitePolicy()), "secret": token_hex(16)})
    Output(path, force).write(
        text, mode=0o600, note=f": edit it, then answer with --policy {path}"
    )


def show_policy(policy: Path, *, json: bool = False) -> None:
    """Show a policy, including the defaults."""
    held = asdict(read_policy(policy))
    held["secret"] = None if held["secret"] is None else "set, not shown"
    if json:
        print_json(held)
    else:
        table([{"limit": name, "value": _text(value)} for name, value in held.items()])


def _text(value: object) -> str:
    if value is None:
        return "not set"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
