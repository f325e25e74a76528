"""Masked sums: each site hides its numbers by masks that cancel in the sum over all sites.

For every pair of sites a keystream is derived from the secret that their keys share: one of them adds it, the
other subtracts it, modulo 2^64. docs/formats.md has the exact construction, with test vectors.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b, sha256
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from fedconformal._extras import need
from fedconformal.documents import MaskedPayload, Plan, SigningKey, SiteKey
from fedconformal.documents._signing import SignedDocument, exchange_point
from fedconformal.protocol._policy import PolicyError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LABEL, _TOKEN = b"fedconformal mask 1", 8
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS answers (key TEXT, digest TEXT, site TEXT, others TEXT, context TEXT, "
    "cases BLOB, labels TEXT, answer TEXT, PRIMARY KEY (key, digest)) STRICT"
)

Answer = TypeVar("Answer", bound=SignedDocument)


def sum_keys(plan: Plan, group: str | None) -> tuple[SiteKey, ...]:
    """Return the sites whose numbers are added up for one group of cases, with their public keys."""
    names = set(plan.by_group[group].asked_names or ())
    return tuple(key for key in plan.keys or () if key.site in names)


def check_own_key(keys: Sequence[SiteKey], site: str, key: SigningKey | None) -> SigningKey:
    """Return the key of a site in a sum; refuse another one, or sites without keys of their own."""
    if len({exchange_point(each.public_key) for each in keys}) < len(keys):
        raise ValueError("a sum needs a key of its own for each site: with one twice, masks would be missing")
    public = {each.site: each.public_key for each in keys}
    if key is None or public.get(site) != key.public_key:
        raise ValueError("key must be the private key of the site's public key in the plan: masks need it")
    return key


def other_keys(keys: Iterable[SiteKey], own: SigningKey) -> tuple[str, ...]:
    """Return the public keys of the other sites of a sum, in order."""
    return tuple(sorted(key.public_key for key in keys if key.public_key != own.public_key))


def mask(plan: Plan, group: str | None, vector: Sequence[int], key: SigningKey) -> MaskedPayload:
    """Hide the numbers of a site behind one mask for each other site that a plan asks.

    Parameters
    ----------
    plan : Plan
        The masked plan, whose digest makes the masks differ from those of any other.
    group : str or None
        The group of cases.
    vector : sequence of int
        Numbers of the site.
    key : SigningKey
        The site's key.

    Returns
    -------
    MaskedPayload
    """
    place = list(plan.by_group).index(group)
    return mask_numbers(vector, key, other_keys(sum_keys(plan, group), key), plan.digest, place)


def mask_numbers(
    vector: Sequence[int], key: SigningKey, others: Iterable[str], digest: str, place: int = 0
) -> MaskedPayload:
    """Hide numbers under a digest that no other sum has, and the place of the vector among several."""
    total = np.array([number % 2**64 for number in vector], dtype=np.uint64)
    for other in others:
        stream = _keystream(key, other, digest, place, len(vector))
        total = total + stream if key.public_key < other else total - stream
    return MaskedPayload(values=base64.b64encode(total.astype("<u8").tobytes()).decode())


def _keystream(key: SigningKey, other: str, digest: str, place: int, length: int) -> NDArray[np.uint64]:
    """Return the mask that two sites share for one vector of a plan."""
    ciphers = need("cryptography.hazmat.primitives.ciphers", extra="cli")
    hashes = need("cryptography.hazmat.primitives.hashes", extra="cli")
    hkdf = need("cryptography.hazmat.primitives.kdf.hkdf", extra="cli")
    lower, upper = (bytes.fromhex(each.partition(":")[2]) for each in sorted((key.public_key, other)))
    info = bytes([len(_LABEL)]) + _LABEL + lower + upper + place.to_bytes(4, "little")
    salt = bytes.fromhex(digest.partition(":")[2])
    secret = hkdf.HKDF(hashes.SHA256(), 32, salt, info).derive(key.agree(other))
    stream = ciphers.Cipher(ciphers.algorithms.ChaCha20(secret, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(8 * length)), dtype="<u8")


def add_up(payloads: Iterable[MaskedPayload]) -> tuple[int, ...]:
    """Add masked numbers modulo 2^64; of all sites together the masks cancel.

    Parameters
    ----------
    payloads : iterable of MaskedPayload
        One for each site, of one length.

    Returns
    -------
    tuple of int
        From -2^63 to 2^63 - 1.
    """
    rows = [np.frombuffer(base64.b64decode(payload.values), dtype="<u8") for payload in payloads]
    sums = np.asarray(np.sum(rows, axis=0, dtype=np.uint64)).view(np.int64)
    return tuple(map(int, sums))


@dataclass(frozen=True)
class SumQuestion:
    """Question to a site whose answer is added up with those of others, and the cases that answer it.

    Attributes
    ----------
    digest : str
        Digest under which masks are made, the same at all sites.
    site, key : str and SigningKey
        The site's name and key.
    others : tuple of str
        Public keys of the other sites.
    context : str or None
        What questions about the same cases have in common; None if there is noise in the sum.
    cases : mapping
        By group of cases, a row of numbers for each.
    """

    digest: str
    site: str
    key: SigningKey
    others: tuple[str, ...]
    context: str | None
    cases: Mapping[str | None, NDArray[Any]]

    @cached_property
    def exact(self) -> _Exact:
        """Sites, context, hashes of all cases in order, and a hash of those of each group."""
        others = json.dumps(self.others)
        if self.context is None:
            return _Exact(others, None, b"", "")
        tokens = {group: _hash_rows(rows) for group, rows in self.cases.items()}
        labels = json.dumps([[group, sha256(b"".join(own)).hexdigest()] for group, own in tokens.items()])
        return _Exact(others, self.context, b"".join(sorted(chain(*tokens.values()))), labels)


def _hash_rows(rows: NDArray[Any]) -> list[bytes]:
    """Return a short hash of each row of numbers, in order."""
    flat = rows.reshape(len(rows), -1).astype("<f8") + 0.0  # -0.0 is 0.0
    raw, width = memoryview(flat.tobytes()), 8 * flat.shape[1]
    places = range(0, len(raw), width)
    return sorted(blake2b(raw[place : place + width], digest_size=_TOKEN).digest() for place in places)


class SumRecord:
    """Durable record of masked answers, which must be the only one of a key.

    Two different answers under one digest would reveal their difference, as their masks are the same: there
    is one answer for each digest, whatever the data. Two exact sums would reveal the sum over the sites in
    which they differ, and where the cases of one site changed alone, these: exact sums are over the same
    sites, of the same cases, or in another context of other cases.

    Parameters
    ----------
    path : Path or None
        The file; by default in the user's state directory.
    """

    def __init__(self, path: Path | None) -> None:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self.path = Path(state) / "fedconformal" / "sums.sqlite" if path is None else path

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Yield the file in a transaction, which is committed in the end."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(sqlite3.connect(self.path, isolation_level=None, timeout=60)) as file:
                file.execute("PRAGMA synchronous = EXTRA")
                file.execute("BEGIN IMMEDIATE")
                file.execute(_SCHEMA)
                yield file
                file.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            raise ValueError(f"{self.path}: the record of masked answers cannot be used: {error}") from None

    def find(self, question: SumQuestion, kind: type[Answer], *, fewest: int) -> Answer | None:
        """Return the recorded answer to a question; None if it can be answered, else refuse it."""
        if not self.path.exists():
            return None
        with self._open() as file:
            return _find(file, question, kind, fewest)

    def answer(
        self, question: SumQuestion, kind: type[Answer], make: Callable[[], Answer], *, fewest: int
    ) -> Answer:
        """Return the recorded answer, or make and record one before it leaves.

        Parameters
        ----------
        question : SumQuestion
            The question, and the site's cases.
        kind : type
            Kind of the answer.
        make : callable
            Makes the answer.
        fewest : int
            Smallest number of cases in which exact sums of different contexts must differ.

        Returns
        -------
        Report or Check

        Raises
        ------
        PolicyError
            If an earlier exact sum was over other sites, or of other cases.
        """
        with self._open() as file:
            answer = _find(file, question, kind, fewest)
            if answer is None:
                answer = make()
                row = question.key.public_key, question.digest, question.site, *question.exact
                values = (*row, answer.to_json(indent=None))
                file.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
            return answer


class _Exact(NamedTuple):
    """Sites and cases of an exact sum."""

    others: str
    context: str | None
    cases: bytes
    labels: str


_WAY_OUT = (
    "ask for a private plan, name the model in plans for scores of a new one, or a new period for new cases; "
    "with another sum_record than {} earlier sums are forgotten"
)


def _find(file: sqlite3.Connection, question: SumQuestion, kind: type[Answer], fewest: int) -> Answer | None:
    """Return the recorded answer; without one refuse a question that earlier exact sums forbid."""
    own = question.key.public_key
    query = "SELECT answer FROM answers WHERE key = ? AND digest = ?"
    if known := file.execute(query, (own, question.digest)).fetchone():
        return kind.from_json(known[0])
    if question.context is not None:
        query = (
            "SELECT digest, others, context, cases, labels FROM answers "
            "WHERE context NOT NULL AND (site = ? OR key = ?)"
        )
        for digest, *earlier in file.execute(query, (question.site, own)):
            if reason := _find_difference(_Exact(*earlier), question.exact, fewest):
                path = file.execute("PRAGMA database_list").fetchone()[2]
                raise PolicyError(f"{reason} ({digest[:19]}...): {_WAY_OUT.format(path)}")
    return None


def _find_difference(earlier: _Exact, now: _Exact, fewest: int) -> str | None:
    """Return the reason why two exact sums together would reveal a site, or cases of it; None if none."""
    if earlier.others != now.others:
        return (
            "an exact sum over other sites was answered before, and both would reveal the sites in which "
            "they differ"
        )
    groups, before = ([group for group, _ in json.loads(each.labels)] for each in (now, earlier))
    moved = groups == before and now.labels != earlier.labels
    if earlier.context == now.context and (earlier.cases != now.cases or moved):
        return "an exact sum of other cases was answered before, and both would reveal how yours changed"
    if earlier.context != now.context:
        here, there = (Counter(np.frombuffer(each.cases, "<u8").tolist()) for each in (now, earlier))
        changed = ((here - there) + (there - here)).total()
        if changed < fewest:
            return f"an exact sum of nearly the same cases was answered before, and {changed} differ"
    return None
