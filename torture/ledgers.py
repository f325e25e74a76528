"""Ledgers that are killed, lose power, fill the disk, are raced for, or are damaged.

One answer is drawn by a child process that is stopped at every system call (ptrace).
Its folder is copied there, and so is what of it had reached the disk: files as at their
last fsync, the directory as at its own. A kill leaves a copy as it is; a power cut
leaves any subset of the sectors, and of the directory's entries, that had not been
synchronised.
"""

import contextlib
import ctypes
import os
import platform
import random
import resource
import secrets
import shutil
import signal
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedconformal.privacy import Ledger, fingerprint
from fedconformal.privacy._ledger_file import LedgerError
from torture._run import Section

BUDGET, COST, SECTOR = Fraction(1), Fraction("0.3"), 512
DATA = fingerprint([1.0, 2.0])
Files = dict[str, bytes]


def ask(
    ledger: Ledger,
    plan: str = "plan",
    sample: Callable[[], str] = lambda: secrets.token_hex(8),
) -> str:
    """Ask a ledger for its answer to a plan."""
    return ledger.answer(
        "cases",
        plan_digest=plan,
        site="A",
        epsilon=COST,
        data_fingerprint=DATA,
        sample=sample,
    )


@contextlib.contextmanager
def new_folder() -> Iterator[Path]:
    """Make a folder in memory, if there is such a disk, and remove it at the end."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix="torture-", dir=base))
    try:
        with warnings.catch_warnings(action="ignore"):
            yield folder
    finally:
        shutil.rmtree(folder)


def new_ledger(folder: Path, *, answers: int = 1) -> Path:
    """Make a ledger with a budget for three answers, some of which were given."""
    ledger = Ledger.create(folder / "ledger.db")
    ledger.set_budget("cases", BUDGET)
    for number in range(answers):
        ask(ledger, f"earlier {number}")
    return ledger.path


def in_child(action: Callable[[], object]) -> int:
    """Run in a forked process; its exit code is 1 if the action raised."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            action()
            code = 0
        finally:
            os._exit(code)
    return pid


def wait(pid: int) -> int:
    """Return the exit code of a child."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def check_ledger(
    path: Path, released: set[str], drawn: set[str], plan: str = "plan"
) -> None:
    """One charge per plan, on disk before anything was drawn; one answer, for ever."""
    ledger = Ledger(path)
    charged = [
        entry.plan for entry in ledger.entries() if entry.kind == "charge"
    ].count(plan)
    assert charged == 1 or (charged == 0 and not released and not drawn), (
        "drawn or released without a charge"
    )
    assert len(released) <= 1, "two answers were released"
    assert ledger.spent("cases") <= BUDGET, "overspent"
    answer = ask(ledger, plan)
    assert released <= {answer}, "another answer than the one that was released"
    assert ask(Ledger(path), plan) == answer, "the answer changed"
    charged = [
        entry.plan for entry in ledger.entries() if entry.kind == "charge"
    ].count(plan)
    assert charged == 1, f"{charged} charges for one answer"


# -- a child that is stopped at every system call --------------------------------------

_TRACE_ME, _NEXT_CALL, _SET_OPTIONS, _CALL_INFO = 0, 24, 0x4200, 0x420E
_SYNC_CALLS = {"x86_64": (74, 75), "aarch64": (82, 83)}


class _CallInfo(ctypes.Structure):
    """Head of ``struct ptrace_syscall_info``; the operation is 1 where a call begins, 2
    where it ends.
    """

    _fields_ = (
        ("operation", ctypes.c_uint8),
        ("padding", ctypes.c_uint8 * 3),
        ("architecture", ctypes.c_uint32),
        ("instruction", ctypes.c_uint64),
        ("stack", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
    )


def _ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> int:
    call = ctypes.CDLL(None).ptrace
    call.restype, call.argtypes = ctypes.c_long, [ctypes.c_long] * 4
    return int(call(request, pid, address, data))


@dataclass(frozen=True)
class Moment:
    """Disk between two system calls: as processes see it, and as far as it was
    synchronised.

    Parameters
    ----------
    files : dict
        Content by name, and the files outside the folder that a witness keeps.
    synced : dict
        Content of each file at its last fsync.
    entries : frozenset of str
        Names in the directory at its own last fsync.
    drawn, released : frozenset of str
        Answers that were drawn and that left the ledger so far.
    """

    files: Files
    synced: Files
    entries: frozenset[str]
    drawn: frozenset[str]
    released: frozenset[str]


def read_lines(path: Path) -> frozenset[str]:
    """Return the lines of a witness's file."""
    return frozenset(path.read_text().split()) if path.exists() else frozenset()


@dataclass
class Disk:
    """Folder of a traced process, and how much of it has been synchronised.

    Parameters
    ----------
    folder : Path
        The folder.
    synced : dict
        Content of each file at its last fsync.
    entries : frozenset of str
        Names in the directory at its own last fsync.
    """

    folder: Path
    synced: Files
    entries: frozenset[str]
    _syncing: str = ""

    def read(self) -> Files:
        """Return the files as processes see them."""
        return {file.name: file.read_bytes() for file in self.folder.iterdir()}

    def note_call(self, pid: int, files: Files) -> None:
        """Follow a stopped process: what an fsync was asked for when it began is on
        disk when it ends.
        """
        info = _CallInfo()
        _ptrace(_CALL_INFO, pid, ctypes.sizeof(info), ctypes.addressof(info))
        if self._syncing and info.operation == 2:
            path = Path(self._syncing)
            if path == self.folder:
                self.entries = frozenset(files)
            elif path.parent == self.folder and path.name in files:
                self.synced = {**self.synced, path.name: files[path.name]}
            self._syncing = ""
        if info.operation == 1 and info.number in _SYNC_CALLS[platform.machine()]:
            self._syncing = os.readlink(f"/proc/{pid}/fd/{info.arguments[0]}")


@lru_cache(maxsize=1)
def trace_answer() -> tuple[Moment, ...]:
    """Trace one answer, and return the distinct moments of its folder."""
    with new_folder() as outside:
        folder, drawn, released = (
            outside / "site",
            outside / "drawn",
            outside / "released",
        )
        folder.mkdir()
        path = new_ledger(folder)

        def sample() -> str:
            text = secrets.token_hex(8)
            drawn.write_text(text + "\n")
            return text

        def traced() -> None:
            if _ptrace(_TRACE_ME, 0) != 0:
                os._exit(55)
            os.kill(os.getpid(), signal.SIGSTOP)
            released.write_text(ask(Ledger(path), sample=sample))

        files = {file.name: file.read_bytes() for file in folder.iterdir()}
        disk, moments, pid = (
            Disk(folder, files, frozenset(files)),
            list[Moment](),
            in_child(traced),
        )
        while os.WIFSTOPPED(status := os.waitpid(pid, 0)[1]):
            before, files = files, disk.read()
            disk.synced = {
                **disk.synced,
                **dict.fromkeys(files.keys() - before.keys(), b""),
            }
            if not moments:
                _ptrace(_SET_OPTIONS, pid, 0, 1 | 1 << 20)
            disk.note_call(pid, files)
            moment = Moment(
                files,
                disk.synced,
                disk.entries,
                read_lines(drawn),
                read_lines(released),
            )
            if not moments or moment != moments[-1]:
                moments.append(moment)
            _ptrace(_NEXT_CALL, pid)
        assert status == 0, (
            "the traced process failed, or this machine does not allow tracing"
        )
        return tuple(moments)


def check_state(files: Files, moment: Moment) -> None:
    """Put files into a new folder, and check the ledger there."""
    with new_folder() as folder:
        for name, content in files.items():
            (folder / name).touch(mode=0o600)
            (folder / name).write_bytes(content)
        check_ledger(folder / "ledger.db", set(moment.released), set(moment.drawn))


def kill(seed: int) -> int:
    """Kill the process at one of its system calls."""
    moments = trace_answer()
    moment = moments[seed % len(moments)]
    check_state(moment.files, moment)
    return 1


def cut_power(seed: int) -> int:
    """Cut the power: of what was not synchronised, any sector and any entry of the
    directory is lost.
    """
    rng, moments = random.Random(seed), trace_answer()
    moment = rng.choice(moments)
    keep = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
    files = {}
    for name in sorted(moment.files.keys() | (moment.entries & moment.synced.keys())):
        if (name in moment.files) != (name in moment.entries):
            is_there = (rng.random() < keep) == (name in moment.files)
        else:
            is_there = True
        if is_there:
            new, old = (
                moment.files.get(name, moment.synced.get(name, b"")),
                moment.synced.get(name, b""),
            )
            files[name] = mix_sectors(new, old, rng, keep)
    check_state(files, moment)
    return 1


def mix_sectors(new: bytes, old: bytes, rng: random.Random, keep: float) -> bytes:
    """Return a content of which each sector is as new or as old, and so is the
    length.
    """
    length = len(new) if rng.random() < keep else len(old)
    mixed = bytearray(max(len(new), len(old)))
    for start in range(0, len(mixed), SECTOR):
        source = new if rng.random() < keep else old
        part = source[start : start + SECTOR]
        mixed[start : start + len(part)] = part
    return bytes(mixed[:length])


# -- full disks, races, damaged files --------------------------------------------------


def fill_disk(seed: int) -> int:
    """Let every write beyond some size fail, then ask again with room on the disk."""
    rng = random.Random(seed)
    with new_folder() as folder:
        path = new_ledger(folder, answers=rng.randrange(3))
        drawn, released = folder / "drawn", folder / "released"

        def attempt() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            ledger = Ledger(path)
            limit = rng.choice(
                (
                    0,
                    512,
                    1024,
                    4096,
                    path.stat().st_size - rng.randrange(5000),
                    rng.randrange(40_000),
                )
            )
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (max(0, limit), resource.RLIM_INFINITY)
            )

            def sample() -> str:
                text = secrets.token_hex(8)
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
                drawn.write_text(text)
                resource.setrlimit(
                    resource.RLIMIT_FSIZE, (max(0, limit), resource.RLIM_INFINITY)
                )
                return text

            with contextlib.suppress(LedgerError):
                text = ask(ledger, sample=sample)
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
                released.write_text(text)

        assert wait(in_child(attempt)) == 0, "an error other than a LedgerError"
        check_ledger(path, set(read_lines(released)), set(read_lines(drawn)))
    return 1


def race(seed: int) -> int:
    """Let six processes ask for two answers at once, some of which are killed on the
    way.
    """
    rng = random.Random(seed)
    with new_folder() as folder:
        path = new_ledger(folder, answers=0)
        (waiting, go), pids = os.pipe(), []
        plans = [rng.choice(("plan", "other")) for _ in range(6)]
        for number, plan in enumerate(plans):
            last = rng.randrange(80) if rng.random() < 0.5 else None

            def attempt(
                number: int = number, plan: str = plan, last: int | None = last
            ) -> None:
                os.close(go)
                os.read(waiting, 1)
                if last is not None:
                    kill_at_statement(last)
                text = ask(Ledger(path, timeout=600), plan)
                (folder / f"released {plan} {number}").write_text(text)

            pids.append(in_child(attempt))
        os.close(go)
        codes = {wait(pid) for pid in pids}
        os.close(waiting)
        assert codes <= {0, -signal.SIGKILL}, f"exit codes {codes}"
        for plan in set(plans):
            released = {file.read_text() for file in folder.glob(f"released {plan} *")}
            check_ledger(path, released, set(), plan)
    return 1


def kill_at_statement(last: int) -> None:
    """Kill this process instead of executing a statement of SQL."""
    connect, numbers = sqlite3.connect, iter(range(last + 1))

    class Dying(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            if next(numbers, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return super().execute(*arguments)

    sqlite3.connect = lambda *arguments, **how: connect(
        *arguments, **how, factory=Dying
    )


@lru_cache(maxsize=1)
def undamaged() -> tuple[Files, tuple[Any, ...]]:
    """Return the files of a ledger with some history, and its entries."""
    with new_folder() as folder:
        path = new_ledger(folder, answers=3)
        return {file.name: file.read_bytes() for file in folder.iterdir()}, Ledger(
            path
        ).entries()


def damage(seed: int) -> int:
    """Damage the bytes of a ledger, or edit it through SQL: it is refused, or as it
    was.
    """
    rng, (files, entries) = random.Random(seed), undamaged()
    with new_folder() as folder:
        for name, content in files.items():
            (folder / name).touch(mode=0o600)
            (folder / name).write_bytes(content)
        name = rng.choice(sorted(files))
        if rng.random() < 0.25:
            edit_by_sql(folder / "ledger.db", rng)
        else:
            (folder / name).write_bytes(damage_bytes(files[name], rng))
        try:
            ledger = Ledger(folder / "ledger.db")
            found, remaining = ledger.entries(), ledger.remaining("cases")
        except LedgerError:
            return 1
        assert found == entries, "a damaged ledger was read, with other entries"
        assert remaining == BUDGET - 3 * COST, "a damaged ledger has another budget"
    return 1


def damage_bytes(content: bytes, rng: random.Random) -> bytes:
    """Return a damaged copy."""
    raw, place, length = (
        bytearray(content),
        rng.randrange(len(content)),
        rng.choice((1, 16, 512, 4096)),
    )
    match rng.randrange(6):
        case 0:
            raw[place] ^= 1 << rng.randrange(8)
        case 1:
            del raw[place:]
        case 2:
            raw[place : place + length] = bytes(len(raw[place : place + length]))
        case 3:
            other = rng.randrange(len(content))
            part = content[other : other + length]
            raw[place : place + len(part)] = part
        case 4:
            raw[place : place + length] = rng.randbytes(
                len(raw[place : place + length])
            )
        case _:
            del raw[place : place + length]
    return bytes(raw)


def edit_by_sql(path: Path, rng: random.Random) -> None:
    """Change, remove, repeat or swap entries, as somebody with a database browser
    would.
    """
    number = rng.randrange(1, 8)
    statements = (
        f"UPDATE entries SET epsilon = '0.001' WHERE number = {number}",
        f"DELETE FROM entries WHERE number = {number}",
        f"DELETE FROM entries WHERE number >= {number}",
        (
            "INSERT INTO entries SELECT max(number) + 1, time, kind, dataset, plan,"
            " site, by_plan, '5', fingerprint, answer, numbers, reason, seal FROM"
            " entries"
        ),
        f"UPDATE entries SET plan = 'another' WHERE number = {number}",
        f"UPDATE entries SET answer = 'another' WHERE number = {number}",
        f"UPDATE entries SET number = -number WHERE number = {number}",
        "UPDATE head SET seal = (SELECT seal FROM entries WHERE number = 2)",
        "UPDATE head SET key = 'another'",
    )
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        triggers = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute(rng.choice(statements))
        for _, sql in triggers:  # so that the seals alone can tell
            connection.execute(sql)


_ONE_ANSWER = "one charge, on disk before the draw; one answer, whoever asks again"
SECTIONS = (
    Section("kills", "kills at every system call", _ONE_ANSWER, kill, 600, 60),
    Section(
        "power",
        "power cuts with any subset of unsynced sectors lost",
        _ONE_ANSWER,
        cut_power,
        2_000,
        100,
    ),
    Section("full-disks", "full disks", _ONE_ANSWER, fill_disk, 1_000, 40),
    Section(
        "races",
        "races of six processes, half of them killed",
        _ONE_ANSWER,
        race,
        500,
        4,
    ),
    Section(
        "damage",
        "damaged ledgers",
        "refused, or every entry as it was",
        damage,
        10_000,
        150,
    ),
)
