"""Masked sums: each site hides its numbers by masks that cancel in the sum over all sites.

For every pair of sites a keystream is derived from the secret that their keys share: one of them adds it, the
other subtracts it, modulo 2^64. docs/formats.md has the exact construction, with test vectors.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fedconformal._extras import need
from fedconformal.documents import MaskedPayload, Plan, SigningKey, SiteKey
from fedconformal.documents._signing import SignedDocument
from fedconformal.protocol._policy import PolicyError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LABEL = b"fedconformal mask 1"
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS answers "
    "(key TEXT, plan TEXT, site TEXT, exact INTEGER, sites TEXT, report TEXT, PRIMARY KEY (key, plan)) STRICT"
)

Answer = TypeVar("Answer", bound=SignedDocument)


def sum_keys(plan: Plan, group: str | None) -> tuple[SiteKey, ...]:
    """Return the sites whose numbers are added up for one group of cases, with their public keys."""
    names = set(plan.by_group[group].asked_names or ())
    return tuple(key for key in plan.keys or () if key.site in names)


def check_own_key(keys: Iterable[SiteKey], site: str, key: SigningKey | None) -> SigningKey:
    """Return the key of a site in a sum, or refuse another one: its masks would not cancel."""
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


class SumRecord:
    """Durable record of masked answers: one for each digest, whatever the data.

    Two different answers under one digest would reveal their difference, as their masks are the same. Two
    exact sums over different sites would reveal the sum over the sites in which they differ.

    Parameters
    ----------
    path : Path or None
        The file; by default in the user's state directory.
    """

    def __init__(self, path: Path | None) -> None:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        self.path = Path(state) / "fedconformal" / "sums.sqlite" if path is None else path

    def answer(
        self,
        digest: str,
        site: str,
        key: SigningKey,
        groups: Mapping[str | None, Sequence[str]],
        kind: type[Answer],
        make: Callable[[], Answer],
        *,
        is_exact: bool,
    ) -> Answer:
        """Return the recorded answer, or make and record one before it leaves.

        Parameters
        ----------
        digest : str
            Digest of the plan, or of what else the masks were made for.
        site, key : str and SigningKey
            The site's name and key.
        groups : mapping
            For each group that is answered for, the public keys of the other sites in the sum.
        kind : type
            Kind of the answer.
        make : callable
            Makes the answer.
        is_exact : bool
            True if there is no noise in the sum.

        Returns
        -------
        Report or Check

        Raises
        ------
        PolicyError
            If an earlier exact sum was over other sites.
        """
        # Where all sums are over the same sites, their differences are too, whatever the groups.
        named = {} if len(set(map(tuple, groups.values()))) == 1 else {group or "" for group in groups}
        sites = json.dumps(
            sorted([group, *groups[group or None]] for group in named) or [*next(iter(groups.values()))]
        )
        own = key.public_key
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            with closing(sqlite3.connect(self.path, isolation_level=None, timeout=60)) as file:
                file.execute("PRAGMA synchronous = EXTRA")
                file.execute("BEGIN IMMEDIATE")
                file.execute(_SCHEMA)
                query = "SELECT report FROM answers WHERE key = ? AND plan = ?"
                if known := file.execute(query, (own, digest)).fetchone():
                    return kind.from_json(known[0])
                query = "SELECT plan FROM answers WHERE (site = ? OR key = ?) AND exact AND sites != ?"
                if is_exact and (earlier := file.execute(query, (site, own, sites)).fetchone()):
                    raise PolicyError(
                        f"an exact sum over other sites was answered before ({earlier[0][:19]}...), and both "
                        "together would reveal the sites in which they differ: ask for a private plan, or "
                        f"for the same sites; for new cases alone, another sum_record than {self.path}"
                    )
                answer = make()
                row = own, digest, site, is_exact, sites, answer.to_json(indent=None)
                file.execute("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", row)
                file.execute("COMMIT")
                return answer
        except (sqlite3.Error, OSError) as error:
            raise ValueError(f"{self.path}: the record of masked answers cannot be used: {error}") from None
