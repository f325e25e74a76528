"""Mutated documents for all readers: whatever they are fed, they read it or raise
DocumentError.
"""

import copy
import hashlib
import json
import math
import random
import time
import warnings
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import fedconformal as fc
from torture._run import Section, run_limited

SECONDS, PER_SEED = 2, 50
GRID, ANY = fc.Bins.uniform(0, 5, 20), fc.SitePolicy.unlimited()
READERS = (fc.Plan, fc.Report, fc.Calibration, fc.documents.Check)

ODD = [
    *(None, True, False, 0, -1, 1, 2, 3, 2**31, 2**63, 2**64, 10**30, -(10**30)),
    *(0.0, -0.0, 0.5, 0.9, 1.5, -1e308, 5e-324),
    *(
        "",
        "x",
        "A",
        "Infinity",
        "-Infinity",
        "NaN",
        "1e999",
        "0.5",
        "1/3",
        "2/4",
        "9" * 18 + "/7",
    ),
    *("\x00", "\u2028", "\ud800", "é" * 300),
    *("sha256:" + "0" * 64, "ed25519:" + "0" * 64, "ed25519:" + "f" * 128),
    *(
        "fedconformal/plan",
        "fedconformal/report",
        "marginal",
        "each-site",
        "ranks",
        "cases",
        "curve",
        "bin",
    ),
    *(
        [],
        {},
        [[]],
        [None],
        [1, 2],
        [[1], [2]],
        {"a": 1},
        {"kind": "curve"},
        ["A", "A"],
    ),
]

SNIPPETS = [
    *(
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"1e999",
        b"-1e999",
        b"1e-999",
        b"9" * 400,
        b"-",
        b"1.",
    ),
    *(b"\x00", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\xef\xbb\xbf"),
    *(
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"null",
        b"true",
        b"[" * 2000,
        b'{"a":' * 500,
    ),
]


def originals() -> list[fc.documents.Document]:
    """Make valid documents of every kind: open, closed, named, signed, private,
    grouped, infeasible.
    """
    rng = np.random.default_rng(0)
    keys = {
        name: fc.SigningKey(Ed25519PrivateKey.from_private_bytes(name.encode() * 32))
        for name in "AB"
    }
    plans = [
        fc.plan(n_sites=4, n_points=30, confidence_level=0.8),
        fc.plan(
            n_points={"A": 30, "B": 45},
            confidence_level=[0.8, 0.9],
            score={"name": "raps", "k_reg": 2},
        ),
        fc.plan(
            n_points=[20, 30, 20, 41, 12],
            criterion="conditional",
            delta=0.2,
            max_faulty=1,
            confidence_level=0.7,
        ),
        fc.plan(["A", "B"], keys={name: key.public_key for name, key in keys.items()}),
        fc.plan(n_sites=3, confidence_level=0.9),
        fc.plan(n_points={"A": 30, "B": 45}, promise="each-site"),
        fc.plan(
            n_points={"A": 30, "B": 45}, promise="mixture", terms={"purpose": "a trial"}
        ),
        fc.plan(n_sites=12, promise="new-site"),
        fc.plan(n_points={"A": 30, "B": 45}, promise="each-site", curve=GRID),
        fc.plan(n_points={"A": 30, "B": 45}, promise="mixture", curve=GRID),
        fc.plan(
            n_points={"A": 30, "B": 45, "C": 90},
            confidence_level=[0.8, 0.9],
            numbers=2,
            max_missing=1,
        ),
        fc.plan(n_sites=3, confidence_level=0.9, numbers=3),
    ]
    with warnings.catch_warnings(action="ignore"):
        plans.append(fc.plan(n_sites=3, n_points=2, confidence_level=0.99))
    documents: list[fc.documents.Document] = [*plans, *_private(rng), *_grouped(rng)]
    for plan in plans:
        sizes = list(plan.n_points or [30] * (plan.n_sites or 3))
        names = plan.site_names or [f"site {j}" for j in range(len(sizes))]
        reports = [
            fc.report(
                plan,
                rng.exponential(size=n),
                site=name,
                policy=ANY,
                key=keys[name] if plan.keys else None,
                score=plan.score,
            )
            for n, name in zip(sizes, names, strict=True)
        ]
        calibration = fc.calibrate(plan, reports[1:] if len(reports) > 3 else reports)
        new = fc.documents.Check(
            calibration=calibration.digest,
            site="A",
            n=25,
            epsilon=None,
            covered=(20,) * len(plan.confidence_levels),
        )
        documents += [
            reports[0],
            calibration,
            new,
            new.model_copy(update={"epsilon": Fraction(1, 2)}),
        ]
    return documents


def _private(rng: np.random.Generator) -> list[fc.documents.Document]:
    documents: list[fc.documents.Document] = []
    scores = {name: rng.random(300) * 4 for name in "ABCDE"}
    for analysis in ("curve", "paper"):
        privacy = fc.Privacy(10.0, fc.Bins.uniform(0, 5, 20), analysis=analysis)
        plan = fc.plan(n_sites=5, n_points=300, confidence_level=0.8, privacy=privacy)
        groups = fc.plan(
            groups={"a": [300] * 5, "b": [400] * 5},
            confidence_level=0.7,
            privacy=privacy,
        )
        payload = (
            fc.documents.CurvePayload(counts=(15,) * 20)
            if analysis == "curve"
            else fc.documents.BinPayload(cells=(17,))
        )
        part = fc.documents.ReportPart(n=300, payload=payload)
        report = fc.Report(plan=plan.digest, site="A", parts=(part,))
        documents += [plan, groups, report, fc.privacy.simulate(plan, scores, rng)]
    return documents


def _grouped(rng: np.random.Generator) -> list[fc.documents.Document]:
    sizes = {"old": {"A": 30, "B": 20}, "young": {"A": 25, "B": 0}}
    plan = fc.plan(groups=sizes, confidence_level=0.8)
    reports = [
        fc.report(
            plan, rng.random(n + m), site=name, groups=["old"] * n + ["young"] * m
        )
        for name, n, m in (("A", 30, 25), ("B", 20, 0))
    ]
    by_class = [
        fc.plan(
            groups={**sizes, "baby": {"A": 10, "B": 12}}, group_by=made_of, score="lac"
        )
        for made_of in ("class", ("site", "class"))
    ]
    by_site = fc.plan(
        n_points={"A": 30, "B": 20}, group_by="site", confidence_level=0.8
    )
    sent = [
        fc.report(by_site, rng.random(n), site=name)
        for name, n in (("A", 30), ("B", 20))
    ]
    grouped = [
        plan,
        reports[0],
        fc.calibrate(plan, reports),
        fc.calibrate(plan, reports[1:]),
    ]
    return [*grouped, *by_class, by_site, sent[0], fc.calibrate(by_site, sent)]


def mutate(text: bytes, random: random.Random) -> bytes:
    """One to four small changes, to the bytes or to the structure."""
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        text = (
            _structure(text, random)
            if random.random() < 0.6
            else mutate_bytes(text, random)
        )
    return text


def mutate_bytes(text: bytes, random: random.Random) -> bytes:
    """Return a text with some bytes left out, repeated or replaced."""
    i, j = sorted(random.randrange(len(text) + 1) for _ in range(2))
    j = min(j, i + random.choice((0, 1, 3, 20, 10**6)))
    middle = random.choice(
        (
            b"",
            random.choice(SNIPPETS),
            text[i:j] * 2,
            bytes(random.randrange(256) for _ in range(random.choice((1, 4)))),
        )
    )
    return text[:i] + middle + text[j:]


def _structure(text: bytes, random: random.Random) -> bytes:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return mutate_bytes(text, random)
    holder, place = random.choice(list(_places(content)) or [([content], 0)])
    if isinstance(holder, dict):
        action = random.random()
        if action < 0.15:
            del holder[place]
        elif action < 0.3:
            holder[
                random.choice(
                    ("extra", "n", "digest", "privacy", "names", "group", "kind", "")
                )
            ] = _value(holder[place], random)
        else:
            holder[place] = _value(holder[place], random)
    elif random.random() < 0.2:
        holder.insert(place, copy.deepcopy(holder[place]))
    else:
        holder[place] = _value(holder[place], random)
    if isinstance(content, dict) and random.random() < 0.7:
        content = add_digest(content)
    return json.dumps(content, ensure_ascii=True).encode()


def add_digest(content: dict[str, object]) -> dict[str, object]:
    """Return the content of a document with the digest that fits."""
    rest = {name: value for name, value in content.items() if name != "digest"}
    try:
        text = json.dumps(
            rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        ).encode()
    except UnicodeEncodeError:
        return content
    return {**rest, "digest": "sha256:" + hashlib.sha256(text).hexdigest()}


def _value(old: object, random: random.Random) -> object:
    if (
        isinstance(old, int | float)
        and not isinstance(old, bool)
        and random.random() < 0.5
    ):
        near = old + random.choice((-1, 1, 0.5, 10**6))
        return near if math.isfinite(near) else 0
    return copy.deepcopy(random.choice(ODD))


def _places(content: object, depth: int = 0) -> Iterator[tuple[Any, Any]]:
    """All containers with a key or an index in them."""
    if depth > 20 or not isinstance(content, dict | list):
        return
    for key in list(content) if isinstance(content, dict) else range(len(content)):
        yield content, key
        yield from _places(content[key], depth + 1)


def judge(reader: type[fc.documents.Document], text: bytes) -> None:
    """Read a text, or let it be refused in one line; anything else is a violation."""
    start = time.process_time()
    try:
        document = reader.from_json(text)
    except fc.DocumentError as error:
        message = str(error)
        assert "\n" not in message, f"a refusal of several lines: {message!r}"
        assert len(message) < 400, f"a refusal of {len(message)} characters"
    else:
        assert reader.from_json(document.to_json()) == document, (
            "a document changed when it was written"
        )
    used = time.process_time() - start
    assert used < SECONDS, f"reading took {used:.1f} s"


def feed(seed: int) -> int:
    """Feed mutated documents to all readers, in a process with limited memory."""
    texts, rng = make_texts(), random.Random(seed)
    mutants = [mutate(rng.choice(texts), rng) for _ in range(PER_SEED)]
    run_limited(lambda: [judge(reader, text) for text in mutants for reader in READERS])
    return PER_SEED


@lru_cache(maxsize=1)
def make_texts() -> list[bytes]:
    """Return the texts of valid documents of every kind."""
    return [document.to_json().encode() for document in originals()]


SECTION = Section(
    "documents",
    "mutated documents, each through four readers",
    f"read and written as they are, or refused in one line, within {SECONDS} s and"
    " 500 MB",
    feed,
    runs=1_000,
    quick=10,
)
