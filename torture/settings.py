"""Mutated policies and keys: whatever a file of settings holds, it is read or refused
in one line.
"""

import random
import time
from importlib.resources import files

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import fedconformal as fc
from torture._run import Section, run_limited
from torture.documents import PER_SEED, SECONDS, mutate_bytes

_KEY = fc.SigningKey(Ed25519PrivateKey.from_private_bytes(b"k" * 32))
_POLICY = b"""max_numbers = 3
max_epsilon = 0.5
private_only = true
curves = "plain"
scores = ["absolute", "lac"]
promises = ["population"]
"""
_ODD = (
    b"a." * 500 + b"b = 1\n",
    b"scores = " + b"[" * 400 + b"]" * 400,
    b"max_numbers = " + b"9" * 5000,
    b"max_epsilon = 1e999\n",
    b"min_group = -0x1\n",
    b'coordinator = "ed25519:"\n',
    b"\xff\xfe",
    b"-----BEGIN PRIVATE KEY-----\n" * 20,
)


def judge(text: bytes) -> None:
    """Read a text as a policy and as a key, or let it be refused in one line."""
    for read in (fc.SitePolicy.from_toml, fc.SigningKey.from_pem):
        start, refusal = time.process_time(), ""
        try:
            read(text)
        except (ValueError, TypeError) as error:
            refusal = str(error)
        assert "\n" not in refusal, f"a refusal of several lines: {refusal[:200]!r}"
        used = time.process_time() - start
        assert used < SECONDS, f"reading took {used:.1f} s"


def feed(seed: int) -> int:
    """Feed mutated policies and keys to both readers, in a process with limited
    memory.
    """
    rng = random.Random(seed)
    template = files("fedconformal.cli").joinpath("policy.toml").read_bytes()
    mutants = []
    for _ in range(PER_SEED):
        text = rng.choice((_POLICY, template, _KEY.to_pem()))
        if rng.random() < 0.3:
            text = rng.choice(_ODD) + text
        for _ in range(rng.randrange(4)):
            text = mutate_bytes(text, rng)
        mutants.append(text)
    run_limited(lambda: [judge(text) for text in mutants])
    return PER_SEED


SECTION = Section(
    "settings",
    "mutated policies and keys",
    f"read, or refused in one line, within {SECONDS} s and 500 MB",
    feed,
    runs=400,
    quick=4,
)
