"""Questions to a ledger, and what others see of its file."""

import os
import secrets
import sqlite3
import sys
from contextlib import closing

import pytest

from fedconformal.privacy import LedgerError, fingerprint

DATA = fingerprint([1.0, 2.0])
linux = pytest.mark.skipif(
    sys.platform != "linux", reason="kills and traces processes the Linux way"
)


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
        dataset,
        plan_digest=plan,
        site=site,
        epsilon=epsilon,
        data_fingerprint=data,
        sample=sample,
        **how,
    )


def quote(ledger, plan="P", *, epsilon=0.1, site="A", data=DATA, dataset="D", **how):
    return ledger.quote(
        dataset,
        plan_digest=plan,
        site=site,
        epsilon=epsilon,
        data_fingerprint=data,
        **how,
    )


def record(ledger, plan="P", *, site="A", numbers=1, data=DATA, dataset="D", most=3):
    def allow(answers, _):
        if answers >= most:
            raise LedgerError(f"{answers} exact answers of at most {most}")

    ledger.record_exact(
        dataset,
        plan_digest=plan,
        site=site,
        numbers=numbers,
        data_fingerprint=data,
        allow=allow,
    )


def never():
    raise AssertionError("a sample was drawn")


def interrupted():
    raise KeyboardInterrupt


def on_disk(path, column):
    """What another reader sees in the file."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return [
            value
            for (value,) in connection.execute(
                f"SELECT {column} FROM entries ORDER BY number"
            )
        ]


def kinds(path):
    return on_disk(path, "kind")


def charges(ledger):
    return [entry for entry in ledger.entries() if entry.kind == "charge"]


def seal_of(path):
    """Return the file that remembers the last entry of a ledger."""
    return path.with_name(f"{path.name}.seal")


def put(file, content, *, like):
    """Write a ledger's file, with the seal that another ledger has."""
    file.touch(mode=0o600)
    file.write_bytes(content)
    seal_of(file).write_bytes(seal_of(like).read_bytes())


def in_child(action):
    """Run in a forked process; its exit code is 1 if the action failed."""
    pid = os.fork()
    if pid == 0:  # pragma: no cover
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return pid


def exit_code(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
