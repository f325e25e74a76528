"""Whole federations in one process: coordinator, sites, engine, clock, disk and
network, all from one seed.

The real code runs inside: sites answer with `rounds.CALIBRATE` and `rounds.CHECK` from
ledgers on disk, the coordinator keeps and calibrates with `rounds.ReportCollection`.
Around it messages are dropped, delayed, repeated, reordered and corrupted; processes
die at any statement of SQL and at any write, and start again; disks fail; clocks jump;
backups of ledgers are put back. A witness outside of all this keeps what left.
"""

import contextlib
import errno
import heapq
import itertools
import json
import logging
import math
import os
import random
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import fedconformal as fc
from fedconformal import rounds
from fedconformal.privacy import _mechanisms
from torture._run import Section

FEDERATIONS = (
    {"north": 40, "south": 25, "west": 60},
    {"north": 120, "south": 40, "west": 60, "east": 25},
    {"north": 60, "south": 60, "west": 60, "east": 60, "Übersee": 60},
)
LOG = logging.getLogger("torture")
LOG.addHandler(logging.NullHandler())
LOG.propagate = False
START = datetime(2027, 1, 1, tzinfo=UTC)


class Crash(BaseException):
    """The process dies here."""


# -- plans -----------------------------------------------------------------------------

_BINS = fc.Bins.uniform(0, 1, 20)
_PLANS: tuple[dict[str, Any], ...] = (
    {},
    {"numbers": 3},
    {"criterion": "marginal"},
    {"confidence_level": [0.7, 0.8], "max_missing": 1},
    {"criterion": "conditional", "delta": 0.2, "confidence_level": 0.7},
    {"max_faulty": 1, "confidence_level": 0.7},
    {"promise": "mixture"},
    {"promise": "each-site"},
    {"curve": _BINS},
    {"privacy": fc.Privacy(4.0, _BINS), "confidence_level": 0.7},
    {"privacy": fc.Privacy(1.5, _BINS), "confidence_level": 0.6},
    {"privacy": fc.Privacy(2.5, _BINS), "confidence_level": [0.6, 0.7]},
    {"numbers": 20},
    {"confidence_level": [0.5 + 0.02 * step for step in range(20)]},
)
"""Options of plans; the last two ask for more than a default policy allows."""
_PRIVATE = tuple(place for place, options in enumerate(_PLANS) if "privacy" in options)


@lru_cache(maxsize=512)
def make_plan(
    place: int, sizes: tuple[tuple[str, int], ...], *, is_open: bool, round_id: str
) -> fc.Plan:
    """Return a plan for these sites."""
    with warnings.catch_warnings(action="ignore"):
        if is_open:
            return fc.plan(
                n_sites=len(sizes), confidence_level=0.8, terms={"round": round_id}
            )
        return fc.plan(
            **{"n_points": dict(sizes), "confidence_level": 0.8, **_PLANS[place]},
            terms={"round": round_id},
        )


# -- the world -------------------------------------------------------------------------


@dataclass
class Hospital:
    """A site: its data, its files, and what has left it."""

    name: str
    scores: np.ndarray
    new_scores: np.ndarray
    folder: Path
    policy: fc.SitePolicy
    budget: Fraction | None
    is_restored: bool = False
    released: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    @property
    def ledger(self) -> Path:
        """The file of the ledger."""
        return self.folder / "ledger.db"

    def site(self, dataset: str) -> rounds.Site:
        """Return the site as its process configures it when it starts."""
        if self.budget is None:
            return rounds.Site(self.name, policy=self.policy)
        ledger, epsilon = (
            fc.Ledger(self.ledger),
            None if self.policy.private_only is False else 0.5,
        )
        return rounds.Site(
            self.name,
            policy=self.policy,
            ledger=ledger,
            dataset=dataset,
            check_epsilon=epsilon,
        )


@dataclass
class Round:
    """A round of the coordinator, which may die and go on from its folder."""

    plan: fc.Plan
    nodes: dict[int, str]
    folder: Path
    collection: rounds.ReportCollection[int] | None = None
    checks: rounds.CheckCollection[int] | None = None
    calibration: fc.Calibration | None = None
    is_over: bool = False


class World:
    """One simulated federation.

    Parameters
    ----------
    seed : int
        Everything follows from it.
    folder : Path
        The disks of all machines.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.random, self.generator = random.Random(seed), np.random.default_rng(seed)
        self.folder, self.now = folder, 0.0
        self.clock_error = timedelta()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self.faults_until_sql, self.faults_until_sync, self.is_dead = -1, -1, False
        self.fault: type[BaseException] | BaseException = Crash
        chance = self.random.random
        self.drop, self.repeat, self.corrupt = (
            0.3 * chance(),
            0.3 * chance(),
            0.3 * chance(),
        )
        self.die, self.fail = 0.4 * chance(), 0.3 * chance()
        self.restore = 0.5 if chance() < 0.2 else 0.0
        if (
            self.restore
        ):  # with private plans that are asked again, a restored ledger would matter
            self.repeat = 0.9
        sizes = self.random.choice(FEDERATIONS)
        self.hospitals = [self._make_hospital(name, n) for name, n in sizes.items()]
        self.rounds = [
            self._make_round(number) for number in range(self.random.randint(1, 3))
        ]

    def _make_hospital(self, name: str, n: int) -> Hospital:
        folder = self.folder / name
        folder.mkdir()
        policy = self.random.choice(
            (
                fc.SitePolicy(),
                fc.SitePolicy(private_only=False),
                fc.SitePolicy(private_only=False, curves="plain"),
                fc.SitePolicy(private_only=False, curves="plain", max_answers=2),
                fc.SitePolicy(max_numbers=2, max_epsilon=2),
            )
        )
        budget = (
            Fraction(self.random.choice((2, 4, 6)))
            if self.random.random() < 0.7
            else None
        )
        hospital = Hospital(
            name, *self.generator.random((2, n)), folder, policy, budget
        )
        if budget is not None:
            ledger = fc.Ledger.create(hospital.ledger)
            ledger.set_budget("cases", budget)
            ledger.set_budget("new cases", 1)
        return hospital

    def _make_round(self, number: int) -> Round:
        sizes = tuple(
            (hospital.name, hospital.scores.size) for hospital in self.hospitals
        )
        is_open = self.random.random() < 0.1
        places = _PRIVATE if self.restore else range(len(_PLANS))
        plan = make_plan(
            self.random.choice(places),
            sizes,
            is_open=is_open,
            round_id=f"round-{number}",
        )
        if self.random.random() < 0.3:
            terms = plan.terms.model_copy(
                update={"expires": self.time_text(self.random.uniform(5, 60))}
            )
            plan = plan.model_copy(update={"terms": terms})
        nodes = {
            number: hospital.name for number, hospital in enumerate(self.hospitals)
        }
        return Round(plan, nodes, self.folder / f"reports {number}")

    def time_text(self, seconds: float) -> str:
        """Return a moment of the simulation as documents write it."""
        return (
            (START + timedelta(seconds=int(seconds))).isoformat().replace("+00:00", "Z")
        )

    # -- events ------------------------------------------------------------------------

    def at(self, delay: float, event: Callable[[], None]) -> None:
        """Let something happen later."""
        heapq.heappush(self._events, (self.now + delay, next(self._numbers), event))

    def run(self) -> None:
        """Run the federation to its end."""
        for number, each in enumerate(self.rounds):
            self.at(
                number * self.random.uniform(0, 20), lambda each=each: self.start(each)
            )
            self.at(100 + number, lambda each=each: self.finish(each))
        for _ in range(self.random.randint(0, 3)):
            self.at(self.random.uniform(0, 60), self.jump_clock)
        while self._events:
            self.now, _, event = heapq.heappop(self._events)
            event()

    def jump_clock(self) -> None:
        """Set the clock of all machines forward or back."""
        self.clock_error = timedelta(seconds=self.random.uniform(-3600, 3600))

    @contextlib.contextmanager
    def mishap(self) -> Iterator[None]:
        """Let the process die, or its disk fail, at some statement or write of what
        follows.
        """
        kind, self.is_dead = self.random.random(), False
        if kind < self.die + self.fail:
            self.fault = (
                Crash
                if kind < self.die
                else OSError(errno.ENOSPC, "No space left on device")
            )
            if self.random.random() < 0.5:
                self.faults_until_sql = self.random.randrange(60)
            else:
                self.faults_until_sync = self.random.randrange(3)
        try:
            yield
        finally:
            self.faults_until_sql = self.faults_until_sync = -1

    # -- the coordinator ---------------------------------------------------------------

    def start(self, each: Round) -> None:
        """Start a round, or go on with it from its folder, and ask who has not
        answered.
        """
        if each.is_over:
            return
        try:
            with self.mishap():
                folder = rounds.Folder(each.folder, each.plan)
                each.collection = rounds.ReportCollection(
                    each.plan, each.nodes, engine="simulation", log=LOG, folder=folder
                )
        except (Crash, OSError, ValueError):
            each.collection = None
            self.at(self.random.uniform(1, 10), lambda: self.start(each))
            return
        packed = rounds.pack_plan(each.plan)
        for node in each.collection.to_ask:
            self.send(packed, lambda message, node=node: self.ask(each, node, message))

    def receive(self, each: Round, node: int, message: Any, *, is_check: bool) -> None:
        """Take a reply, unless the coordinator is down."""
        collection = each.checks if is_check else each.collection
        if collection is None:
            return
        try:
            with self.mishap():
                if isinstance(message, rounds.Failure):
                    collection.fail(node, message.value)
                else:
                    collection.receive(node, message)
        except (Crash, OSError, ValueError):
            each.collection = None
            self.at(self.random.uniform(1, 10), lambda: self.start(each))

    def finish(self, each: Round) -> None:
        """Calibrate with whatever is in the folder; die on the way and do it again, if
        need be.
        """
        each.is_over, each.collection = True, None  # whatever comes later finds nobody
        for _ in range(50):
            try:
                with self.mishap():
                    folder = rounds.Folder(each.folder, each.plan)
                    collection = rounds.ReportCollection(
                        each.plan,
                        each.nodes,
                        engine="simulation",
                        log=LOG,
                        folder=folder,
                    )
                    each.calibration = collection.calibrate(
                        timeout=100, on_refused="skip"
                    )
            except (Crash, OSError):
                continue
            except ValueError:
                return
            self.ask_for_checks(each, each.calibration)
            return

    def ask_for_checks(self, each: Round, calibration: fc.Calibration) -> None:
        """Ask every site how many of its new cases are covered."""
        packed = rounds.pack_calibration(calibration)
        each.checks = rounds.CheckCollection(
            calibration, each.nodes, engine="simulation", log=LOG
        )
        for node in each.nodes:
            self.send(
                packed,
                lambda message, node=node: self.ask(each, node, message, is_check=True),
            )

    # -- a site ------------------------------------------------------------------------

    def ask(
        self, each: Round, node: int, message: Any, *, is_check: bool = False
    ) -> None:
        """Let a site answer a message; its process may die on the way."""
        hospital = self.hospitals[node]
        question = rounds.CHECK if is_check else rounds.CALIBRATE
        scores, dataset = (
            (hospital.new_scores, "new cases")
            if is_check
            else (hospital.scores, "cases")
        )
        if self.random.random() < self.restore:
            self.restore_backup(hospital)
        with self.mishap():
            answer = question.answer(
                message,
                lambda _: scores.copy(),
                lambda _: hospital.site(dataset),
                log=LOG,
            )
        if self.is_dead:  # whatever the dying process returned was seen by nobody
            return
        if not isinstance(answer, rounds.Failure):
            hospital.released[json.loads(answer)[question.asked]].add(answer)
        self.send(
            answer, lambda reply: self.receive(each, node, reply, is_check=is_check)
        )

    def restore_backup(self, hospital: Hospital) -> None:
        """Copy the ledger away, or put an earlier copy back in its place."""
        backup = hospital.folder / "backup"
        if hospital.budget is None:
            return
        if not backup.exists():
            shutil.copy(hospital.ledger, backup)
        else:
            shutil.copy(backup, hospital.ledger)
            hospital.is_restored = True

    # -- the network -------------------------------------------------------------------

    def send(self, message: Any, deliver: Callable[[Any], None]) -> None:
        """Deliver a message: late, never, twice, or damaged."""
        if self.random.random() < self.drop:
            return
        for _ in range(1 + (self.random.random() < self.repeat)):
            delivered = (
                self.damage(message) if self.random.random() < self.corrupt else message
            )
            self.at(
                self.random.expovariate(0.1),
                lambda delivered=delivered: deliver(delivered),
            )

    def damage(self, message: Any) -> Any:
        """Flip, cut or repeat a part of a message."""
        if isinstance(message, rounds.Failure):
            return message
        raw = bytearray(message.encode() if isinstance(message, str) else message)
        place = self.random.randrange(len(raw))
        kind = self.random.randrange(3)
        if kind == 0:
            raw[place] ^= 1 << self.random.randrange(8)
        elif kind == 1:
            del raw[place:]
        else:
            raw[place:place] = raw[place : place + self.random.randrange(20)]
        return raw.decode(errors="replace") if isinstance(message, str) else bytes(raw)

    # -- faults under the real code ----------------------------------------------------

    def count_down(self, counter: str) -> None:
        """Raise the fault when a counter of statements or writes has run down."""
        rest = getattr(self, counter)
        if rest == 0:
            self.is_dead = self.fault is Crash
            raise self.fault
        setattr(self, counter, rest - 1)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Put the simulated clock, disk and noise under the real code."""
        world, connect, sync = self, sqlite3.connect, os.fsync

        class Connection(sqlite3.Connection):
            def execute(self, *arguments: Any) -> sqlite3.Cursor:
                try:
                    world.count_down("faults_until_sql")
                except OSError:
                    raise sqlite3.OperationalError("database or disk is full") from None
                return super().execute(*arguments)

        class Clock(datetime):
            @classmethod
            def now(cls, zone: Any = None) -> datetime:
                return START + timedelta(seconds=world.now) + world.clock_error

        def fsync(file: int) -> None:
            world.count_down("faults_until_sync")
            sync(file)

        def measurement(
            scale: float, epsilon: float, *, sensitivity: int
        ) -> Callable[[list[int]], list[int]]:
            share = -math.expm1(-1 / scale)
            return lambda counts: [
                count
                + int(
                    world.generator.geometric(share) - world.generator.geometric(share)
                )
                for count in counts
            ]

        with contextlib.ExitStack() as stack:
            for name, module in list(sys.modules.items()):
                if (
                    name.startswith("fedconformal.")
                    and getattr(module, "datetime", None) is datetime
                ):
                    stack.enter_context(mock.patch.object(module, "datetime", Clock))
            connected = lambda *args, **how: connect(*args, **how, factory=Connection)  # noqa: E731
            stack.enter_context(mock.patch.object(sqlite3, "connect", connected))
            stack.enter_context(mock.patch.object(os, "fsync", fsync))
            stack.enter_context(
                mock.patch.object(_mechanisms, "_measurement", measurement)
            )
            yield


# -- invariants ------------------------------------------------------------------------


def check_site(world: World, hospital: Hospital) -> None:
    """Find no second answer, no overspending, and no number beyond the policy."""
    plans = {each.plan.digest: each.plan for each in world.rounds}
    known = plans.keys() | {
        each.calibration.digest for each in world.rounds if each.calibration is not None
    }
    spent, numbers = {"cases": Fraction(0), "new cases": Fraction(0)}, set()
    most = hospital.policy.numbers_of(hospital.scores.size)
    for digest, texts in hospital.released.items():
        assert digest in known, f"{hospital.name} answered a question that nobody asked"
        assert len(texts) == 1, (
            f"{hospital.name} gave {len(texts)} different answers to one question"
        )
        text = next(iter(texts))
        if digest not in plans:
            spent["new cases"] += fc.documents.Check.from_json(text).epsilon or 0
            continue
        (design,) = plans[digest].designs
        spent["cases"] += getattr(design.message, "epsilon", None) or 0
        levels = getattr(fc.Report.from_json(text).payload, "levels", ())
        values = {value for level in levels for value in level.values}
        assert len(values) <= most, (
            f"{hospital.name} sent {len(values)} numbers, and {most} are allowed"
        )
        numbers |= values
    if hospital.budget is None:
        assert not any(spent.values()), (
            f"{hospital.name} gave a private answer without a ledger"
        )
        return
    over_life = max(20, hospital.scores.size // 10)
    assert len(numbers) <= over_life, (
        f"{hospital.name} gave {len(numbers)} numbers, {over_life} are allowed"
    )
    budgets = {"cases": hospital.budget, "new cases": Fraction(1)}
    for dataset, cost in spent.items():
        assert cost <= budgets[dataset], (
            f"{hospital.name}: {cost} left of {budgets[dataset]}"
        )
    if hospital.is_restored:  # an older copy may be refused by now
        return
    ledger = fc.Ledger(hospital.ledger)
    for dataset, cost in spent.items():
        assert cost <= ledger.spent(dataset) <= budgets[dataset], (
            f"{hospital.name}: {cost} was not charged"
        )


def check_round(world: World, each: Round) -> None:
    """Verify a calibration from what sites have really sent, and make it again."""
    if each.calibration is None:
        return
    folder = rounds.Folder(each.folder, each.plan)
    reports, refused = folder.read()
    sent = {report.digest for report in reports}
    released = {
        fc.Report.from_json(text).digest
        for hospital in world.hospitals
        for text in hospital.released[each.plan.digest]
    }
    assert sent <= released, "a report was kept that no site has sent"
    findings = fc.audit.verify(each.calibration, reports)
    wrong = [finding for finding in findings if not finding.holds]
    assert not wrong, f"not verified: {wrong[0].claim} ({wrong[0].detail})"
    again = fc.calibrate(each.plan, reports, on_refused="skip", unreadable=refused)
    assert again.thresholds == each.calibration.thresholds, (
        "the same reports gave another threshold"
    )


def simulate(seed: int) -> int:
    """Run one federation, and check every invariant."""
    base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    folder = Path(tempfile.mkdtemp(prefix=f"federation-{seed}-", dir=base))
    try:
        with warnings.catch_warnings(action="ignore"):
            world = World(seed, folder)
            with world.installed():
                world.run()
            for hospital in world.hospitals:
                check_site(world, hospital)
            for each in world.rounds:
                check_round(world, each)
    finally:
        shutil.rmtree(folder)
    return 1


SECTION = Section(
    "federations",
    "simulated federations",
    "no overspending, no second answer, no number beyond the policy; a calibration that"
    " verifies, or none",
    simulate,
    runs=10_000,
    quick=40,
)
