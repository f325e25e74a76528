"""Everything that the package writes it reads; what it could not read is refused before
a round is spent.
"""

import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedconformal as fc
from fedconformal import rounds
from fedconformal.documents import (
    Calibration,
    CalibrationPart,
    Check,
    Design,
    Level,
    RankLevel,
    Ranks,
    RanksPayload,
    Received,
    Refusal,
    Report,
    ReportPart,
    Sent,
    SiteKind,
)

ANY = fc.SitePolicy.unlimited()
ZERO = "sha256:" + "0" * 64


def survives(document):
    """Return whether a document is read as it was written, indented or not."""
    kind = type(document)
    return all(
        kind.from_json(document.to_json(indent=indent)) == document
        for indent in (None, 2, 30)
    )


class TestEverythingWrittenIsRead:
    @given(
        n_sites=st.integers(1, 12),
        n_levels=st.integers(1, 4),
        numbers=st.integers(1, 3),
        kind=st.sampled_from(
            ["named", "unnamed", "open", "expected", "groups", "curve"]
        ),
        name=st.text('aé"\\\U0001f3e5', max_size=50),
        seed=st.integers(0, 9),
    )
    @settings(max_examples=15, deadline=None)
    def test_of_any_shape(self, n_sites, n_levels, numbers, kind, name, seed):
        rng = np.random.default_rng(seed)
        sizes = {
            f"{name}{i}".strip(): int(n)
            for i, n in enumerate(rng.integers(20, 60, size=n_sites))
        }
        levels = [0.5, 0.6, 0.7, 0.8][:n_levels]
        options = {"confidence_level": levels, "numbers": numbers}
        plan = {
            "named": lambda: fc.plan(n_points=sizes, **options),
            "unnamed": lambda: fc.plan(n_points=list(sizes.values()), **options),
            "open": lambda: fc.plan(list(sizes), **options),
            "expected": lambda: fc.plan(n_sites=n_sites, **options),
            "groups": lambda: fc.plan(groups={"a": sizes, "b": sizes}, **options),
            "curve": lambda: fc.plan(
                n_points=sizes, confidence_level=levels, curve=fc.Bins.uniform(0, 5, 9)
            ),
        }[kind]()
        labels = {"groups": lambda n: ["a"] * n + ["b"] * n}.get(kind, lambda n: None)
        reports = [
            fc.report(
                plan,
                rng.exponential(size=2 * n if kind == "groups" else n),
                site=site,
                policy=ANY,
                groups=labels(n),
            )
            for site, n in sizes.items()
        ]
        calibration = fc.calibrate(plan, reports)
        check = Check(
            calibration=ZERO,
            site=next(iter(sizes)),
            n=9,
            epsilon=None,
            covered=(9,) * n_levels,
        )
        assert all(map(survives, (plan, *reports, calibration, check)))

    @pytest.mark.parametrize(
        "n", [25_000, pytest.param(100_000, marks=pytest.mark.nightly)]
    )
    def test_a_plan_of_many_names(self, n):
        names = [f"site {i}" for i in range(n)]
        for plan in (fc.plan(names), fc.plan(n_points=dict.fromkeys(names, 40))):
            assert fc.Plan.from_json(plan.to_json()) == plan

    @pytest.mark.nightly
    def test_a_plan_of_many_sizes(self):
        sizes = {f"site {i}": 20 + i for i in range(25_000)}
        plan = fc.plan(
            n_points=sizes, promise="each-site", curve=fc.Bins.uniform(0, 5, 9)
        )
        assert fc.Plan.from_json(plan.to_json()) == plan

    @pytest.mark.parametrize(
        "n", [10_000, pytest.param(100_000, marks=pytest.mark.nightly)]
    )
    def test_the_calibration_of_many_sites(self, n):
        names = tuple(f"site {i:05}" for i in range(n))
        plan = fc.plan(names)
        design, (level,) = plan.designs[0], plan.designs[0].levels
        kinds = tuple(
            SiteKind(count=1, n=20 + i, names=(name,)) for i, name in enumerate(names)
        )
        message = Ranks(
            levels=(
                RankLevel(
                    ranks=((1,),) * len(names), rule=design.message.levels[0].rule
                ),
            )
        )
        solved = design.answered_by(
            kinds,
            message=message,
            levels=(Level(confidence_level=level.confidence_level, votes=1),),
        )
        calibration = Calibration(
            plan=plan,
            parts=(CalibrationPart(design=solved, thresholds=(1.0,)),),
            reports=tuple(Received(site=name, report=ZERO) for name in names),
            assumptions=("alike",),
        )
        assert Calibration.from_json(calibration.to_json()) == calibration

    def test_ten_million_equal_sites(self):
        plan = fc.plan(n_sites=10**7, n_points=40)
        assert fc.Plan.from_json(plan.to_json()) == plan


class TestRefusedBeforeARound:
    def test_a_plan_whose_calibration_could_not_be_read(self):
        with pytest.raises(
            ValueError,
            match=r"the calibration of 250,000 answers of sites in groups would",
        ):
            fc.plan(
                groups={f"{g}": {f"s{i}": 40 for i in range(25_000)} for g in range(10)}
            )

    def test_names_that_are_too_long_together(self):
        with pytest.raises(
            fc.DocumentError, match="this plan cannot be written: larger than 24 MB"
        ):
            fc.plan(['"' * 190 + str(i) for i in range(70_000)])

    def test_a_document_that_is_too_large_is_not_written(self):
        refused = tuple(
            Refusal(source="x" * 400, reason="y" * 400) for _ in range(60_000)
        )
        calibration = fc.conformalize({"A": range(40)}).model_copy(
            update={"refused": refused}
        )
        with pytest.raises(
            fc.DocumentError,
            match="this calibration cannot be written: larger than 44 MB",
        ):
            calibration.to_json()

    def test_many_refused_reports_do_not_make_it_too_large(self):
        plan = fc.plan(n_sites=3, n_points=40)
        report = fc.report(plan, range(40), site="A")
        refused = [Refusal(source="é" * 400, reason="é" * 400)] * 70_000
        calibration = fc.calibrate(
            plan, [report], on_refused="skip", unreadable=refused
        )
        assert calibration.refused[-1].source == "69,001 other reports"
        assert Calibration.from_json(calibration.to_json()) == calibration

    def test_many_refused_payloads_keep_their_sites_without_reasons(self):
        plan = fc.plan(groups={"a": None, "b": None})
        wrong = ReportPart(
            group="a",
            n=40,
            payload=RanksPayload(levels=(Sent(ranks=(1,), values=(0.5,)),)),
        )
        good = fc.report(plan, range(80), site="A", groups=["a"] * 40 + ["b"] * 40)
        reports = [
            good,
            *(
                Report(plan=plan.digest, site=f"s{i}", parts=(wrong,))
                for i in range(600)
            ),
        ]
        calibration = fc.calibrate(plan, reports, on_refused="skip")
        reasons = [
            refusal.reason for refusal in calibration["a"].selected_parts[0].refused
        ]
        assert len(reasons) == 600
        assert reasons[499] != reasons[500] == "does not fit the plan"
        assert all(finding.holds for finding in fc.audit.verify(calibration, reports))


def hostile_shares(shares):
    kinds = tuple(
        SiteKind(count=1, n=20 + i, names=(f"s{i}",), share=share)
        for i, share in enumerate(shares)
    )
    levels = (Level(confidence_level=Fraction(1, 2), votes=1),)
    message = Ranks(levels=(RankLevel(ranks=((1,),) * len(kinds)),))
    design = Design(
        promise="mixture",
        criterion="marginal",
        sites=kinds,
        message=message,
        levels=levels,
    )
    return fc.Plan(designs=(design,))


class TestHostile:
    def test_shares_whose_sum_has_a_million_digits(self):
        plan = hostile_shares([Fraction(1, 10**39 + i) for i in range(20_000)])
        with pytest.raises(
            fc.DocumentError,
            match="common denominator of all shares has more than 400 digits",
        ):
            fc.Plan.from_json(plan.to_json())

    def test_names_that_grow_when_they_are_compared(self):
        names = [f"{i}" + "\ufdfa" * 190 for i in range(1_200)]
        with pytest.raises(
            ValueError,
            match="names of all sites must have at most 4,000,000 characters",
        ):
            fc.plan(names)

    @pytest.mark.parametrize("kind", [fc.Plan, fc.Report, fc.Calibration, Check])
    @pytest.mark.parametrize("field", ["format", "version", "digest", "plan", "extra"])
    def test_deep_nesting_is_refused(self, kind, field):
        for depth in range(100, 1000, 50):
            text = f'{{"{field}": {"[" * depth}{"]" * depth}}}'
            with pytest.raises(fc.DocumentError):
                kind.from_json(text)

    def test_half_a_character_is_refused(self):
        for text in ("\ud800", '{"a": "\ud800"}', "a,b\n1,\ud800\n2,3\n"):
            with pytest.raises(fc.DocumentError):
                fc.Plan.from_json(text)

    @pytest.mark.parametrize(
        "content",
        [
            b"a=" + b"[" * 5000,
            b"a=" + b"{a=" * 5000,
            b"a" + b".a" * 30_000 + b"=1",
            b"#" * 2**17,
        ],
    )
    def test_a_policy_of_anything(self, content):
        with pytest.raises(ValueError, match="policy: not a policy: "):
            fc.SitePolicy.from_toml(content)

    @pytest.mark.parametrize(
        "pem",
        [b"", b"\xff" * 4000, b"x" * 5000, b"-----BEGIN PRIVATE KEY-----\n" * 100],
    )
    def test_a_key_of_anything(self, pem):
        with pytest.raises(ValueError, match="not a"):
            fc.SigningKey.from_pem(pem)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
class TestRegularFilesOnly:
    @pytest.fixture
    def odd(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.json")
        (tmp_path / "loop.json").symlink_to(tmp_path / "loop.json")
        (tmp_path / "folder.json").mkdir()
        (tmp_path / "zero.json").symlink_to("/dev/zero")
        return [
            tmp_path / f"{name}.json" for name in ("pipe", "loop", "folder", "zero")
        ]

    def test_nothing_waits_for_a_pipe(self, odd):
        readers = [
            fc.Plan.read,
            fc.Report.read,
            fc.Calibration.read,
            Check.read,
            fc.SitePolicy.read,
        ]
        for path in odd:
            for read in (*readers, fc.SigningKey.read):
                with pytest.raises(ValueError, match=path.name):
                    read(path)

    def test_a_folder_of_reports_with_a_pipe_in_it(self, odd, tmp_path, capsys):
        from fedconformal.cli import main

        plan = fc.plan(n_sites=1, n_points=40)
        (tmp_path / "plan.json").write_text(plan.to_json())
        (tmp_path / "A.json").write_text(fc.report(plan, range(40), site="A").to_json())
        command = ["calibrate", str(tmp_path / "plan.json"), str(tmp_path)]
        assert main(command) == 2
        assert "4 refused" in capsys.readouterr().err
        assert main([*command, "--skip-refused"]) == 0


def test_what_a_folder_has_is_listed_once(tmp_path, monkeypatch):
    plan = fc.plan(n_sites=400, n_points=40)
    folder = rounds.Folder(tmp_path / "reports", plan)
    nodes = {i: f"s{i}" for i in range(400)}
    for i in range(0, 400, 2):
        folder.keep_refusal(str(i), Refusal(source=f"s{i}", reason="junk"))
    folder.keep("1", "s1", fc.report(plan, range(40), site="s1"))
    reads = []
    listed = rounds.Folder._refusals
    monkeypatch.setattr(
        rounds.Folder, "_refusals", lambda self: reads.append(1) or listed(self)
    )
    import logging

    collection = rounds.ReportCollection(
        plan, nodes, folder=folder, engine="a test", log=logging.getLogger("x")
    )
    assert len(collection.to_ask) == 199
    assert len(reads) == 2
    assert folder.answered({"1": "s1", "2": "s2", "3": "s3"}) == {"1", "2"}


@pytest.mark.nightly
@pytest.mark.skipif(
    not os.path.exists("/proc/self/status"), reason="needs to know how large it is"
)
def test_100_000_reports_in_a_folder(tmp_path):
    """Within 20 times the processor time of parsing their JSON, and 500 MB; and the
    result reads and verifies.
    """
    import subprocess
    import sys

    names = [f"site {i:05}" for i in range(100_000)]
    plan = fc.plan(n_points=dict.fromkeys(names, 40))
    (tmp_path / "plan.json").write_text(plan.to_json())
    rank = plan.local_ranks[0]
    for i, name in enumerate(names):
        payload = RanksPayload(levels=(Sent(ranks=(rank,), values=(i / 7,)),))
        report = Report(
            plan=plan.digest, site=name, parts=(ReportPart(n=40, payload=payload),)
        )
        (tmp_path / f"{name}.json").write_text(report.to_json())
    code = """
import json, re, sys, time
from pathlib import Path
from fedconformal.cli import main

began = time.process_time()
for file in Path(sys.argv[3]).glob("site *.json"):
    json.loads(file.read_bytes())
parsed = time.process_time()
code = main(sys.argv[1:])
ratio = (time.process_time() - parsed) / (parsed - began)
# the kernel's maxrss is also its parent's
peak = re.search("VmHWM:[^0-9]*([0-9]+)", open("/proc/self/status").read())[1]
print(code, ratio, int(peak) * 1024 / 1e6)
"""
    output = tmp_path / "calibration.out"
    command = [
        sys.executable,
        "-c",
        code,
        "calibrate",
        tmp_path / "plan.json",
        tmp_path,
        "-o",
        output,
    ]
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=True
    )
    code, ratio, megabytes = map(float, done.stdout.splitlines()[-1].split())
    assert code == 0
    assert ratio < 20, (ratio, megabytes)
    assert megabytes < 500, (ratio, megabytes)
    assert all(finding.holds for finding in fc.audit.verify(Calibration.read(output)))
