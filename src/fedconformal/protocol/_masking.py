"""Masks: each site hides its numbers by keystreams that cancel in the sum over all
sites.

For every pair of sites a keystream is derived from the secret that their keys share:
one of them adds it, the other subtracts it, modulo 2^64. The keystreams are bound to
the whole question as each site received it, and to everything else that the site
received from the server: where two sites were asked, or sent, anything else, their
masks do not cancel and the sum cannot be read. docs/formats.md has the exact
construction, with test vectors.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from fedconformal._extras import need
from fedconformal.documents import MaskedPayload, Plan, SigningKey, SiteKey
from fedconformal.documents._signing import exchange_point

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LABEL = b"fedconformal mask 1"


def sum_keys(plan: Plan, group: str | None) -> tuple[SiteKey, ...]:
    """Return the sites whose numbers are added up for one group of cases, with their
    public keys.
    """
    names = set(plan.by_group[group].asked_names or ())
    return tuple(key for key in plan.keys or () if key.site in names)


def check_own_key(
    keys: Sequence[SiteKey], site: str, key: SigningKey | None
) -> SigningKey:
    """Return the key of a site in a sum; refuse another one, or sites without keys of
    their own.
    """
    if len({exchange_point(each.public_key) for each in keys}) < len(keys):
        raise ValueError(
            "a sum needs a key of its own for each site: with one twice, masks would be"
            " missing"
        )
    public = {each.site: each.public_key for each in keys}
    if key is None or public.get(site) != key.public_key:
        raise ValueError(
            "key must be the private key of the site's public key in the plan: masks"
            " need it"
        )
    return key


def other_keys(keys: Iterable[SiteKey], own: SigningKey) -> tuple[str, ...]:
    """Return the public keys of the other sites of a sum, in order."""
    return tuple(
        sorted(key.public_key for key in keys if key.public_key != own.public_key)
    )


def mask_salt(
    question: str, received: str | None = None, dataset: str | None = None
) -> str:
    """Return the digest that binds masks to everything that decides what a site
    computes.

    Parameters
    ----------
    question : str
        Digest of the whole question as this site received it.
    received : str, optional
        Digest of everything else from the server that the site's function can read;
        None if nothing came.
    dataset : str, optional
        What the site's policy calls its cases, on which all sites of a sum must agree.

    Returns
    -------
    str
        ``sha256:...``

    Examples
    --------
    >>> mask_salt("sha256:" + 64 * "a")[:14]
    'sha256:fd628aa'
    """
    bound = {"dataset": dataset, "question": question, "received": received}
    text = json.dumps(bound, ensure_ascii=False, separators=(",", ":"))
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def mask(
    vector: Sequence[int], key: SigningKey, others: Iterable[str], salt: str, place: int
) -> MaskedPayload:
    """Hide the numbers of a site behind one mask for each other site.

    Parameters
    ----------
    vector : sequence of int
        Numbers of the site.
    key : SigningKey
        The site's key.
    others : iterable of str
        Public keys of the other sites.
    salt : str
        The digest of `mask_salt`, the same at all sites.
    place : int
        Place of the vector among several of one answer.

    Returns
    -------
    MaskedPayload
    """
    total = np.array([number % 2**64 for number in vector], dtype=np.uint64)
    for other in others:
        stream = _keystream(key, other, salt, place, len(vector))
        total = total + stream if key.public_key < other else total - stream
    return MaskedPayload(
        values=base64.b64encode(total.astype("<u8").tobytes()).decode()
    )


def _keystream(
    key: SigningKey, other: str, salt: str, place: int, length: int
) -> NDArray[np.uint64]:
    """Return the mask that two sites share for one vector of an answer."""
    ciphers = need("cryptography.hazmat.primitives.ciphers", extra="cli")
    hashes = need("cryptography.hazmat.primitives.hashes", extra="cli")
    hkdf = need("cryptography.hazmat.primitives.kdf.hkdf", extra="cli")
    lower, upper = (
        bytes.fromhex(each.partition(":")[2])
        for each in sorted((key.public_key, other))
    )
    info = bytes([len(_LABEL)]) + _LABEL + lower + upper + place.to_bytes(4, "little")
    salt_bytes = bytes.fromhex(salt.partition(":")[2])
    secret = hkdf.HKDF(hashes.SHA256(), 32, salt_bytes, info).derive(key.agree(other))
    stream = ciphers.Cipher(
        ciphers.algorithms.ChaCha20(secret, bytes(16)), mode=None
    ).encryptor()
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
    rows = [
        np.frombuffer(base64.b64decode(payload.values), dtype="<u8")
        for payload in payloads
    ]
    sums = np.asarray(np.sum(rows, axis=0, dtype=np.uint64)).view(np.int64)
    return tuple(map(int, sums))
