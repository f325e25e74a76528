"""Questions to a ledger, and what others see of its file."""

import secrets
import sqlite3
from contextlib import closing

from fedconformal.privacy import fingerprint

DATA = fingerprint([1.0, 2.0])


def ask(
    ledger,
    plan="P",
    *,
    epsilon=0.1,
    site="A",
    data=DATA,
    dataset="D",
    sample=lambda: secrets.token_hex(8),
    **how,
):
    return ledger.answer(
        dataset, plan_digest=plan, site=site, epsilon=epsilon, data_fingerprint=data, sample=sample, **how
    )


def quote(ledger, plan="P", *, epsilon=0.1, site="A", data=DATA, dataset="D", **how):
    return ledger.quote(dataset, plan_digest=plan, site=site, epsilon=epsilon, data_fingerprint=data, **how)


def record(ledger, plan="P", *, site="A", numbers=1, data=DATA, dataset="D", most=3):
    ledger.record_exact(
        dataset, plan_digest=plan, site=site, numbers=numbers, data_fingerprint=data, most=most
    )


def never():
    raise AssertionError("a sample was drawn")


def on_disk(path, column):
    """What another reader sees in the file."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return [value for (value,) in connection.execute(f"SELECT {column} FROM entries ORDER BY number")]


def kinds(path):
    return on_disk(path, "kind")


def charges(ledger):
    return [entry for entry in ledger.entries() if entry.kind == "charge"]


def put(file, content):
    """Write a file that is its owner's alone."""
    file.touch(mode=0o600)
    file.write_bytes(content)
