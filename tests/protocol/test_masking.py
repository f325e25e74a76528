"""Masked sums: equal to plain ones, unreadable, and answered once."""

import base64
import hashlib
import hmac
import itertools
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import fedconformal as fc
from fedconformal.documents import DocumentError, MaskedPayload, ReportPart
from fedconformal.documents._signing import exchange_point
from fedconformal.protocol import _masking
from fedconformal.protocol._masking import add_up, mask_salt
from fedconformal.protocol._sum_record import SumRecord

NAMES = ("north", "south", "west", "east")
KEYS = {name: fc.SigningKey.new() for name in NAMES}
PUBLIC = {name: key.public_key for name, key in KEYS.items()}
SIZES = dict(zip(NAMES, (60, 80, 100, 120), strict=True))
GRID = fc.Bins.uniform(0, 1, 40)
MODEL, OTHER_MODEL = (f"sha256:{64 * digit}" for digit in "ab")
RNG = np.random.default_rng(0)
SCORES = {name: RNG.random(n) for name, n in SIZES.items()}
LOSSES = {
    name: np.sort(RNG.random((n, 40)))[:, ::-1] * (np.arange(40) < 39)
    for name, n in SIZES.items()
}
WRONG = {name: (RNG.random(n) < 0.02).astype(int) for name, n in SIZES.items()}
EXACT = {
    "counts": {"curve": GRID},
    "two levels": {
        "curve": GRID,
        "confidence_level": [0.8, 0.9],
        "criterion": "conditional",
    },
    "losses": {"curve": GRID, "parts": 100, "risk": 0.4},
    "answers": {"curve": GRID, "starts": 4, "criterion": "conditional", "risk": 0.2},
    "sizes unknown": {"curve": GRID, "n_sites": list(NAMES), "n_points": None},
    "sizes unknown, losses": {
        "curve": GRID,
        "parts": 100,
        "risk": 0.4,
        "n_sites": list(NAMES),
        "n_points": None,
    },
}


@pytest.fixture(autouse=True)
def records(monkeypatch):
    """Forget what the keys of this module have answered in other tests."""
    monkeypatch.setattr(SumRecord, "_of_new_keys", {})


def policy_of(name, **options):
    return fc.SitePolicy(
        sum_with=[key for other, key in PUBLIC.items() if other != name], **options
    )


def data_of(plan, name):
    message = plan.designs[0].message
    if getattr(message, "parts", None) is not None:
        return {"losses": LOSSES[name]}
    answers = (
        {} if getattr(message, "starts", None) is None else {"losses": WRONG[name]}
    )
    return {"scores": SCORES[name], **answers}


def answer(plan, name, **options):
    usual = {
        "policy": policy_of(name),
        "key": KEYS[name],
        "model": plan.terms.model,
        **data_of(plan, name),
    }
    return fc.report(plan, site=name, **{**usual, **options})


def make_plan(*, masked=True, terms=None, **options):
    terms = {"model": MODEL, **(terms or {})}
    return fc.plan(
        **{
            "n_points": SIZES,
            "keys": PUBLIC,
            "masked": masked,
            "terms": terms,
            **options,
        }
    )


def mask(plan, group, vector, key, received=None):
    """Mask numbers as a site does that was sent this plan and nothing else."""
    keys = _masking.sum_keys(plan, group)
    salt, place = mask_salt(plan.digest, received), list(plan.by_group).index(group)
    return _masking.mask(vector, key, _masking.other_keys(keys, key), salt, place)


def make_ledger(path):
    ledger = fc.Ledger.create(path)
    ledger.set_budget("cases", 10)
    return ledger


# -- an implementation of its own: RFC 7748, RFC 5869 and RFC 8439, by hand ------------


def x25519(number: bytes, point: bytes) -> bytes:
    p = 2**255 - 19
    k = int.from_bytes(number, "little") & ~7 & ~(1 << 255) | (1 << 254)
    x1 = int.from_bytes(point, "little") % 2**255
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb, aa, bb = d * a, c * b, a * a, b * b
        x3, z3 = (da + cb) ** 2 % p, x1 * (da - cb) ** 2 % p
        e = aa - bb
        x2, z2 = aa * bb % p, e * (aa + 121665 * e) % p
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, -1, p) % p).to_bytes(32, "little")


def chacha_block(key: bytes, counter: int) -> bytes:
    start = [
        *struct.unpack("<4I", b"expand 32-byte k"),
        *struct.unpack("<8I", key),
        counter,
        0,
        0,
        0,
    ]
    state = list(start)

    def quarter(a, b, c, d):
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[x] = (state[x] + state[y]) % 2**32
            mixed = state[z] ^ state[x]
            state[z] = (mixed << turn | mixed >> (32 - turn)) % 2**32

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack(
        "<16I", *((a + b) % 2**32 for a, b in zip(state, start, strict=True))
    )


def keystream(
    seed: bytes, own: bytes, other: bytes, digest: bytes, place: int, length: int
) -> list[int]:
    p, number = 2**255 - 19, hashlib.sha512(seed).digest()[:32]
    y = int.from_bytes(other, "little") % 2**255
    secret = x25519(number, ((1 + y) * pow(1 - y, p - 2, p) % p).to_bytes(32, "little"))
    info = (
        b"\x13fedconformal mask 1"
        + min(own, other)
        + max(own, other)
        + struct.pack("<I", place)
    )
    extracted = hmac.digest(digest, secret, "sha256")
    key = hmac.digest(extracted, info + b"\x01", "sha256")
    stream = b"".join(chacha_block(key, i) for i in range(length // 8 + 1))
    return list(struct.unpack(f"<{length}Q", stream[: 8 * length]))


class TestConstruction:
    def test_the_published_vectors_are_right(self):
        page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
        seeds = bytes(range(32)), bytes(range(32, 64))
        keys = [
            fc.SigningKey(Ed25519PrivateKey.from_private_bytes(seed)) for seed in seeds
        ]
        raw = [bytes.fromhex(key.public_key.removeprefix("ed25519:")) for key in keys]
        rows = dict(
            re.findall(
                r"^\| (public keys|X25519|three numbers[^|]*?) \| (.*) \|$",
                page,
                re.MULTILINE,
            )
        )
        assert rows.pop("public keys") == ", ".join(f"`{each.hex()}`" for each in raw)
        assert rows.pop("X25519") == f"`{keys[0].agree(keys[1].public_key).hex()}`"
        assert [*rows.values()] == [
            ", ".join(map(str, keystream(seeds[0], raw[0], raw[1], b"\xab" * 32, 1, 3)))
        ]

    @given(
        place=st.booleans(),
        length=st.integers(2, 40),
        seed=st.binary(min_size=32, max_size=32),
    )
    @settings(max_examples=5, deadline=None)
    def test_masks_are_those_of_another_implementation(self, place, length, seed):
        key = fc.SigningKey(Ed25519PrivateKey.from_private_bytes(seed))
        public = {"A": key.public_key, "B": PUBLIC["north"]}
        groups = {"a": {"A": 20, "B": 20}, "b": {"A": 20, "B": 20}}
        plan = make_plan(
            n_points=None,
            groups=groups,
            keys=public,
            curve=fc.Bins.uniform(0, 1, length),
        )
        own, other = (
            bytes.fromhex(each.removeprefix("ed25519:")) for each in public.values()
        )
        sign = 1 if own < other else -1
        bound = f'{{"dataset":null,"question":"{plan.digest}","received":null}}'
        digest = hashlib.sha256(bound.encode()).digest()
        stream = keystream(seed, own, other, digest, int(place), length)
        values = mask(plan, "b" if place else "a", range(length), key).values
        numbers = struct.unpack(f"<{length}Q", base64.b64decode(values))
        assert list(numbers) == [
            (i + sign * one) % 2**64 for i, one in enumerate(stream)
        ]

    @given(st.data())
    @settings(max_examples=15, deadline=None)
    def test_masks_cancel_whatever_the_sites_and_their_order(self, data):
        names = data.draw(
            st.lists(
                st.text("abcdefäж中", min_size=1, max_size=5),
                min_size=2,
                max_size=6,
                unique=True,
            )
        )
        keys = {name: fc.SigningKey.new() for name in names}
        public = {name: key.public_key for name, key in keys.items()}
        plan = fc.plan(
            n_points=dict.fromkeys(names, 30), keys=public, masked=True, curve=GRID
        )
        numbers = st.lists(st.integers(-(2**55), 2**55), min_size=40, max_size=40)
        vectors = {name: data.draw(numbers) for name in names}
        order = data.draw(st.permutations(names))
        sums = add_up(mask(plan, None, vectors[name], keys[name]) for name in order)
        assert sums == tuple(map(sum, zip(*vectors.values(), strict=True)))

    def test_a_masked_report_of_fixed_data_is_uniform(self):
        """Kolmogorov-Smirnov over 12,000 numbers, with fixed keys and rounds; the level
        is 1e-6.
        """
        seeds = [hashlib.sha256(bytes([i])).digest() for i in range(3)]
        keys = [
            fc.SigningKey(Ed25519PrivateKey.from_private_bytes(seed)) for seed in seeds
        ]
        public = {f"{i}": key.public_key for i, key in enumerate(keys)}
        numbers = []
        for i in range(30):
            plan = fc.plan(
                n_points=dict.fromkeys(public, 30),
                keys=public,
                masked=True,
                curve=fc.Bins.uniform(0, 1, 400),
                terms={"round": f"{i:032x}"},
            )
            values = mask(plan, None, [30] + [0] * 399, keys[0]).values
            numbers.append(np.frombuffer(base64.b64decode(values), dtype="<u8"))
        found = np.concatenate(numbers)
        assert stats.kstest(found / 2.0**64, "uniform").pvalue > 1e-6
        assert stats.kstest((found % 2**32) / 2.0**32, "uniform").pvalue > 1e-6


class TestSums:
    @pytest.mark.parametrize("options", EXACT.values(), ids=EXACT)
    def test_masked_equals_plain(self, options):
        results = []
        for masked in (False, True):
            plan = make_plan(masked=masked, **options)
            open_policy = {} if masked else {"policy": fc.SitePolicy(curves="plain")}
            reports = [answer(plan, name, **open_policy) for name in NAMES]
            calibration = fc.calibrate(plan, reports[::-1])
            assert all(
                finding.holds for finding in fc.audit.verify(calibration, reports)
            )
            assert all(finding.holds for finding in fc.audit.verify(calibration))
            assert fc.Calibration.from_json(calibration.to_json()) == calibration
            results.append(
                (calibration.parts[0].thresholds, calibration.parts[0].design.levels)
            )
        assert results[0] == results[1]
        assert isinstance(reports[0].payload, MaskedPayload)

    def test_groups_have_sums_of_their_own(self):
        groups = {"old": dict.fromkeys(NAMES, 25), "young": dict.fromkeys(NAMES, 30)}
        labels = np.repeat(["old", "young"], (25, 30))
        scores = {name: RNG.random(55) for name in NAMES}
        thresholds = []
        for masked in (False, True):
            plan = make_plan(n_points=None, groups=groups, masked=masked, curve=GRID)
            reports = [
                fc.report(
                    plan,
                    scores[name],
                    site=name,
                    groups=labels,
                    key=KEYS[name],
                    policy=policy_of(name, curves="plain", masked_only=False),
                    model=MODEL,
                )
                for name in NAMES
            ]
            calibration = fc.calibrate(plan, reports)
            thresholds.append([part.thresholds for part in calibration.parts])
        assert thresholds[0] == thresholds[1]
        assert all(finding.holds for finding in fc.audit.verify(calibration, reports))

    @pytest.mark.parametrize("bearers", [None, 2, 3])
    def test_private_counts_with_noise_of_all_or_of_bearers(self, bearers, tmp_path):
        plan = make_plan(privacy=fc.Privacy(5.0, GRID, bearers=bearers))
        reports = [
            answer(plan, name, ledger=make_ledger(tmp_path / name), dataset="cases")
            for name in NAMES
        ]
        calibration = fc.calibrate(plan, reports)
        assert all(finding.holds for finding in fc.audit.verify(calibration, reports))
        total = sum(np.histogram(SCORES[name], [-1, *GRID.edges])[0] for name in NAMES)
        assert tuple(total) != calibration.parts[0].sums
        assert (
            np.abs(total - calibration.parts[0].sums).max() < 60
        )  # 75 times the scale: exp(-75) each
        assert ("private-sum" in calibration.assumptions) == (bearers is not None)

    def test_only_bearers_add_noise_and_all_sites_are_charged(self, tmp_path):
        plan = make_plan(privacy=fc.Privacy(1.0, GRID, bearers=2))
        assert plan.message.bearers == ("east", "west")  # the largest
        message, design = fc.messages.of(plan.message), plan.designs[0]
        for name in NAMES:
            draw = message.prepare(
                design, SCORES[name], site=name, round_id=None, options={}
            )
            exact = tuple(np.histogram(SCORES[name], [-1, *GRID.edges])[0])
            assert (draw().counts == exact) == (name in ("north", "south"))
            ledger = make_ledger(tmp_path / name)
            answer(plan, name, ledger=ledger, dataset="cases")
            assert ledger.spent("cases") == 1

    def test_fewer_bearers_add_less_noise(self):
        spreads = [
            fc.messages.of(plan.message).expected(plan.designs[0], 0)[1]
            for plan in (
                make_plan(privacy=fc.Privacy(1.0, GRID, bearers=each))
                for each in (2, 3, None)
            )
        ]
        assert spreads == sorted(spreads)

    def test_cells_of_the_papers_algorithm(self, tmp_path):
        privacy = fc.Privacy(20.0, GRID, analysis="paper")
        plan = make_plan(
            n_points=dict.fromkeys(NAMES, 120),
            privacy=privacy,
            confidence_level=[0.8, 0.9],
        )
        reports = []
        for name in NAMES:
            ledger = fc.Ledger.create(tmp_path / name)
            ledger.set_budget("cases", 100)
            scores = np.resize(SCORES[name], 120)
            reports.append(
                answer(plan, name, scores=scores, ledger=ledger, dataset="cases")
            )
        calibration = fc.calibrate(plan, reports)
        assert [sum(calibration.parts[0].sums[i : i + 40]) for i in (0, 40)] == [4, 4]
        assert all(finding.holds for finding in fc.audit.verify(calibration, reports))


class TestGuard:
    @pytest.fixture
    def plan(self):
        return make_plan(curve=GRID)

    def test_invented_sites_are_named(self, plan):
        known = fc.SitePolicy(sum_with=[PUBLIC["south"], PUBLIC["west"]])
        with pytest.raises(
            fc.PolicyError, match=rf"'east' with the key {PUBLIC['east']}, .*sum_with"
        ):
            answer(plan, "north", policy=known)
        with pytest.raises(fc.PolicyError, match="and 2 more"):
            answer(plan, "north", policy=fc.SitePolicy())

    def test_the_own_key_in_the_policy_makes_room_for_nobody(self, plan):
        keys = [PUBLIC["north"], PUBLIC["south"], PUBLIC["west"]]
        with pytest.raises(fc.PolicyError, match="'east'"):
            answer(plan, "north", policy=fc.SitePolicy(sum_with=keys))

    def test_three_others_at_least(self):
        three = NAMES[:3]
        sizes, keys = (
            {name: SIZES[name] for name in three},
            {name: PUBLIC[name] for name in three},
        )
        plan = make_plan(n_points=sizes, keys=keys, curve=GRID)
        with pytest.raises(fc.PolicyError, match=r"2 other sites.*min_sum_with = 2"):
            answer(plan, "north")
        assert answer(plan, "north", policy=policy_of("north", min_sum_with=2))

    def test_private_only_sites_sum_nothing_exact(self, plan):
        with pytest.raises(fc.PolicyError, match="private_only"):
            answer(plan, "north", policy=policy_of("north", private_only=True))

    def test_one_answer_for_each_plan_whatever_the_data(self, plan):
        first = answer(plan, "north")
        assert answer(plan, "north", scores=np.zeros(60)).to_json() == first.to_json()
        other = make_plan(curve=GRID)
        assert answer(other, "north").payload != first.payload

    def test_private_answers_are_replayed_and_charged_once(self, tmp_path):
        plan, ledger = (
            make_plan(privacy=fc.Privacy(1.0, GRID)),
            make_ledger(tmp_path / "ledger"),
        )
        answers = [
            answer(plan, "north", ledger=ledger, dataset="cases") for _ in range(2)
        ]
        answers.append(
            answer(plan, "north", scores=np.zeros(60), ledger=ledger, dataset="cases")
        )
        assert len({each.to_json() for each in answers}) == 1
        assert ledger.spent("cases") == 1

    def test_a_recorded_exact_sum_counts_as_one_number(self, plan, tmp_path):
        ledger = make_ledger(tmp_path / "ledger")
        options = {
            "ledger": ledger,
            "dataset": "cases",
            "policy": policy_of("north", private_only=False),
        }
        answer(plan, "north", **options)
        assert ledger.exact_answers("cases") == 1

    def test_groups_over_other_sites_are_other_sums_unless_they_have_noise(self):
        groups = {"a": dict.fromkeys(NAMES, 20), "b": dict.fromkeys(NAMES[:3], 20)}
        with pytest.raises(
            ValueError, match="of all groups must be over the same sites"
        ):
            make_plan(n_points=None, groups=groups, curve=GRID)
        assert make_plan(n_points=None, groups=groups, privacy=fc.Privacy(9.0, GRID))

    def test_the_owner_reads_that_a_recorded_answer_leaves(self, plan):
        answer(plan, "north")
        options = {
            "site": "north",
            "key": KEYS["north"],
            "policy": policy_of("north"),
            "model": MODEL,
        }
        prepared = fc.protocol.prepare(plan, np.zeros(60), **options)
        assert (
            prepared.sentence
            == "This plan was answered before: the same masked report leaves, whatever"
            " your scores are now."
        )

    def test_a_site_that_gives_exact_numbers_in_sums_alone(self, plan, tmp_path):
        policy = policy_of("north", curves="plain")
        assert policy.masked_only
        for options in ({"curve": GRID}, {}):
            with pytest.raises(fc.PolicyError, match="masked_only = true"):
                answer(make_plan(masked=False, **options), "north", policy=policy)
        assert answer(plan, "north", policy=policy)
        private = make_plan(masked=False, privacy=fc.Privacy(1.0, GRID))
        assert answer(
            private,
            "north",
            policy=policy,
            ledger=make_ledger(tmp_path / "a"),
            dataset="cases",
        )

    def test_a_site_needs_its_own_key(self, plan):
        for key in (None, KEYS["south"]):
            with pytest.raises(ValueError, match="key must be"):
                fc.report(
                    plan,
                    SCORES["north"],
                    site="north",
                    key=key,
                    policy=policy_of("north"),
                    model=MODEL,
                )

    def test_the_owner_reads_what_leaves(self, plan):
        prepared = fc.protocol.prepare(
            plan,
            SCORES["north"],
            site="north",
            key=KEYS["north"],
            policy=policy_of("north"),
            model=MODEL,
        )
        assert (
            "masked so that only the sum over 4 sites can be read" in prepared.sentence
        )
        assert "which show every score" not in prepared.sentence


class TestServer:
    @pytest.fixture
    def plan(self):
        return make_plan(curve=GRID)

    @pytest.fixture
    def reports(self, plan):
        return [answer(plan, name) for name in NAMES]

    def test_no_sum_without_everybody_where_sizes_are_unknown(self):
        plan = make_plan(**EXACT["sizes unknown"])
        with pytest.raises(
            ValueError, match=r"needs every site, and 'east' did not answer"
        ):
            fc.calibrate(plan, [answer(plan, name) for name in NAMES[:3]])
        assert fc.protocol.sites_needed(plan) == len(NAMES)

    def test_no_sum_without_everybody(self, plan, reports):
        with pytest.raises(
            ValueError,
            match=r"needs every site, and 'east' did not answer.*private plan",
        ):
            fc.calibrate(plan, reports[:3])
        assert any("Every site must answer" in note for note in plan.notes)
        assert fc.protocol.sites_needed(plan) == len(NAMES)

    def test_a_flipped_bit_is_found_anywhere(self, plan, reports):
        """All 320 numbers of one report, one bit each."""
        raw = base64.b64decode(reports[0].payload.values)
        for place in range(0, len(raw), 8):
            changed = bytearray(raw)
            changed[place] ^= 1 << place % 7
            payload = MaskedPayload(values=base64.b64encode(changed).decode())
            part = ReportPart(n=60, payload=payload)
            forged = reports[0].model_copy(update={"parts": (part,)})
            with pytest.raises(fc.RefusedReportsError, match="signature"):
                fc.calibrate(plan, [forged, *reports[1:]])

    def test_a_site_that_signs_nonsense_makes_no_threshold(self, plan, reports):
        payload = mask(plan, None, [61] + [0] * 39, KEYS["north"])
        part = ReportPart(n=60, payload=payload)
        wrong = KEYS["north"].sign(reports[0].model_copy(update={"parts": (part,)}))
        with pytest.raises(ValueError, match="a report is wrong"):
            fc.calibrate(plan, [wrong, *reports[1:]])

    def test_more_wrong_answers_than_answers(self):
        plan = make_plan(**EXACT["answers"])
        reports = [answer(plan, name) for name in NAMES[1:]]
        payload = mask(plan, None, [1] * 40 + [500] + [0] * 39, KEYS["north"])
        mine = answer(plan, "north").model_copy(
            update={"parts": (ReportPart(n=60, payload=payload),)}
        )
        with pytest.raises(ValueError, match="a report is wrong"):
            fc.calibrate(plan, [KEYS["north"].sign(mine), *reports])

    def test_noise_explains_no_giant_cells(self, tmp_path):
        plan = make_plan(privacy=fc.Privacy(5.0, GRID))
        reports = [
            answer(plan, name, ledger=make_ledger(tmp_path / name), dataset="cases")
            for name in NAMES[1:]
        ]
        payload = mask(plan, None, [2**61, 60 - 2**61] + [0] * 38, KEYS["north"])
        first = reports[0].model_copy(
            update={"site": "north", "parts": (ReportPart(n=60, payload=payload),)}
        )
        with pytest.raises(ValueError, match="a report is wrong"):
            fc.calibrate(plan, [KEYS["north"].sign(first), *reports])

    def test_a_report_of_another_size_is_a_finding(self, plan, reports):
        calibration = fc.calibrate(plan, reports)
        part = reports[0].parts[0].model_copy(update={"n": 61})
        other = KEYS["north"].sign(reports[0].model_copy(update={"parts": (part,)}))
        assert not all(
            finding.holds
            for finding in fc.audit.verify(calibration, [other, *reports[1:]])
        )

    def test_a_group_that_is_not_reached_has_no_sum(self, tmp_path):
        sizes = {"few": dict.fromkeys(NAMES, 6), "many": dict.fromkeys(NAMES, 300)}
        privacy = fc.Privacy(2.0, GRID)
        options = {
            "n_points": None,
            "groups": sizes,
            "confidence_level": 0.95,
            "privacy": privacy,
        }
        with pytest.warns(fc.protocol.InfeasibleWarning):
            plan = make_plan(**options)
        labels, scores = np.repeat(["few", "many"], (6, 300)), RNG.random(306)
        data = {"scores": scores, "groups": labels, "dataset": "cases"}
        reports = [
            answer(plan, name, **data, ledger=make_ledger(tmp_path / name))
            for name in NAMES
        ]
        calibration = fc.calibrate(plan, reports)
        assert [len(part.sums) for part in calibration.parts] == [0, 40]
        assert fc.Calibration.from_json(calibration.to_json()) == calibration
        assert all(finding.holds for finding in fc.audit.verify(calibration, reports))

    def test_nothing_is_simulated_for_masked_plans(self):
        plan = make_plan(privacy=fc.Privacy(5.0, GRID))
        with pytest.raises(ValueError, match="without keys"):
            fc.privacy.simulate(plan, SCORES, np.random.default_rng(0))

    def test_the_auditor_finds_a_changed_sum_or_threshold(self, plan, reports):
        calibration = fc.calibrate(plan, reports)
        part = calibration.parts[0]
        sums = list(part.sums)
        sums[0], sums[20] = sums[0] + 1, sums[20] - 1
        for update in ({"sums": tuple(sums)}, {"thresholds": (0.5,)}):
            forged = calibration.model_copy(
                update={"parts": (part.model_copy(update=update),)}
            )
            assert not all(
                finding.holds for finding in fc.audit.verify(forged, reports)
            )
        lower = calibration.model_copy(
            update={"parts": (part.model_copy(update={"thresholds": (0.5,)}),)}
        )
        assert not all(finding.holds for finding in fc.audit.verify(lower))

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"keys": None}, "needs keys"),
            ({"curve": None}, "only counts add up"),
            ({"max_missing": 1}, "every site"),
            ({"promise": "each-site"}, "'population' alone"),
            ({"promise": "mixture"}, "'population' alone"),
            (
                {"n_points": {"north": 60}, "keys": {"north": PUBLIC["north"]}},
                "two or more named sites",
            ),
            ({"terms": {"round": "spring"}}, "random round"),
            (
                {"curve": None, "privacy": fc.Privacy(1.0, GRID, bearers=5)},
                "bearers must be at most",
            ),
            (
                {
                    "masked": False,
                    "curve": None,
                    "privacy": fc.Privacy(1.0, GRID, bearers=2),
                },
                "masked=True",
            ),
        ],
    )
    def test_what_does_not_go_together(self, options, reason):
        with pytest.raises(ValueError, match=reason):
            make_plan(**{"curve": GRID, **options})

    def test_one_bearer_protects_nobody(self):
        with pytest.raises(ValueError, match="bearers"):
            fc.Privacy(1.0, GRID, bearers=1)

    def test_keys_of_small_order_and_the_same_key_twice(self):
        raw = bytearray(bytes.fromhex(PUBLIC["north"].removeprefix("ed25519:")))
        raw[31] ^= 0x80
        negative = f"ed25519:{raw.hex()}"
        assert exchange_point(negative) == exchange_point(PUBLIC["north"])
        for key in (PUBLIC["north"], negative):
            with pytest.raises(ValueError, match="one of its own"):
                make_plan(curve=GRID, keys={**PUBLIC, "south": key})
        with pytest.raises(ValueError, match="small order"):
            make_plan(curve=GRID, keys={**PUBLIC, "south": "ed25519:" + "00" * 32})

    def test_hostile_values_are_refused(self, reports):
        for values in ("AAAA", "A" * 11 + "=", "AAAAAAAAAAB=", "%%%", ""):
            text = reports[0].to_json().replace(reports[0].payload.values, values)
            with pytest.raises(DocumentError):
                fc.Report.from_json(text)

    def test_bearers_without_masks_are_refused_in_a_file(self):
        """Sites that are no bearers would send exact counts that anybody can read."""
        plan = make_plan(privacy=fc.Privacy(1.0, GRID, bearers=2))
        message = plan.message.model_copy(update={"masked": False})
        design = plan.designs[0].model_copy(update={"message": message})
        with pytest.raises(ValueError, match="bearers go with noise in a masked sum"):
            fc.report(
                plan.model_copy(update={"designs": (design,)}),
                SCORES["north"],
                site="north",
            )


def test_agreement_is_symmetric():
    for one, other in itertools.combinations(KEYS.values(), 2):
        assert one.agree(other.public_key) == other.agree(one.public_key)
