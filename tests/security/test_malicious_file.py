"""Whatever bytes somebody sends, a reader answers or refuses, soon and with little
memory, in plain words.
"""

import json
import logging
import os
import resource
import stat
import subprocess
import sys
import unicodedata
import zlib
from pathlib import Path

import hostile_files
import hostile_plans
import numpy as np
import polars as pl
import pytest

import fedconformal as fc
from documents.samples import forged, with_digest
from fedconformal import _files as _outputs
from fedconformal import documents, rounds
from fedconformal._text import one_line, visible
from fedconformal.cli import main
from fedconformal.cli._show import print_json, say, table
from fedconformal.documents import Check, Refusal
from fedconformal.messages import MESSAGES

RED = "\x1b[31mred\x1b[0m"
"""What would be red on a terminal."""

HIDDEN = [
    "\x1b[2J",
    "\x9b31m",
    "\x07",
    "\x7f",
    "\u202e",
    "\u2066",
    "\u200b",
    "\ufeff",
    "\u2028",
    "\ud800",
]
"""Controls of a terminal or of the direction of text, no width, the end of a line, half
a character.
"""

SIZES = {"A": 30, "B": 30, "C": 50}
PLAN = fc.plan(n_points=SIZES, confidence_level=0.8)


def content(document):
    return json.loads(document.to_json())


def text(fields):
    return json.dumps(with_digest(fields))


class TestSize:
    @pytest.mark.nightly
    @pytest.mark.skipif(
        not Path("/proc/self/statm").exists(), reason="needs to know how large it is"
    )
    def test_every_file_is_read_or_refused_with_two_seconds_and_500_megabytes(
        self, tmp_path
    ):
        """Processor time, and memory beyond what the interpreter has with everything
        imported.
        """
        files = hostile_files.files()
        for name, written in files.items():
            (tmp_path / f"{name}.json").write_bytes(written)
        command = [
            sys.executable,
            hostile_files.__file__,
            *map(str, sorted(tmp_path.iterdir())),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        outcomes = json.loads(done.stdout)
        assert outcomes == {name: name.split("-")[-1] for name in files}

    @pytest.mark.slow
    @pytest.mark.skipif(
        not Path("/proc/self/statm").exists(), reason="needs to know how large it is"
    )
    def test_every_plan_is_checked_or_refused_with_500_megabytes(self, tmp_path):
        """The largest designs of every kind of message, before a policy is looked
        at.
        """
        plans = hostile_plans.plans()
        for name, written in plans.items():
            (tmp_path / f"{name}.json").write_text(written)
        command = [
            sys.executable,
            hostile_plans.__file__,
            *map(str, sorted(tmp_path.iterdir())),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        outcomes = json.loads(done.stdout)
        assert outcomes == {name: name.split("-")[-1] for name in plans}

    def test_they_are_of_every_kind_of_message(self):
        kinds = set()
        for written in hostile_plans.plans().values():
            for design in json.loads(written)["designs"]:
                kinds.add(design["message"]["kind"])
        assert kinds == set(MESSAGES)

    @pytest.mark.parametrize(
        ("kind", "size", "largest"),
        [
            (fc.Plan, 2 * 2**20, 24 * 2**20),
            (fc.Report, 64 * 2**10, 4 * 2**20),
            (fc.Calibration, 4 * 2**20, 44 * 2**20),
            (Check, 64 * 2**10, 2**20),
        ],
    )
    def test_each_kind_has_a_limit_that_is_checked_before_parsing(
        self, kind, size, largest, monkeypatch
    ):
        assert (kind.limit.size, kind.limit.largest) == (size, largest)
        monkeypatch.setattr(
            json.JSONDecoder, "decode", lambda *_, **__: pytest.fail("it was parsed")
        )
        for sent in (
            b" " * (size + 1),
            " " * (largest + 1),
            b"[" * (kind.limit.items + 1),
        ):
            with pytest.raises(
                fc.DocumentError, match=rf"not a {kind.kind}: (larger than|more than)"
            ):
                kind.from_json(sent)

    def test_a_plan_that_names_sites_and_a_report_on_groups_may_be_larger(self):
        for kind, field in (
            (fc.Plan, "names"),
            (fc.Plan, "edges"),
            (fc.Report, "group"),
            (fc.Report, "counts"),
        ):
            longer = b'{"%s": 1}' % field.encode() + b" " * kind.limit.size
            with pytest.raises(fc.DocumentError, match="format: is missing"):
                kind.from_json(longer)

    def test_bytes_are_counted_not_characters(self):
        with pytest.raises(fc.DocumentError, match="larger than 64 KB"):
            fc.Report.from_json(json.dumps({"site": "é" * 40_000}, ensure_ascii=False))

    def test_a_small_message_does_not_unpack_to_a_large_plan(self):
        bomb = zlib.compress(b'{"names":[' + b"[]," * 10**7 + b"[]]}", 9)
        assert len(bomb) < 61_000
        with pytest.raises(
            fc.DocumentError, match="cut short, too large, or not alone"
        ):
            rounds.unpack_plan(bomb)
        for junk in (b"", b"junk", zlib.compress(b"{}")[:-3]):
            with pytest.raises(fc.DocumentError, match="the plan in the message"):
                rounds.unpack_plan(junk)

    def test_no_plan_allows_a_longer_report_than_can_be_read(self):
        grouped = fc.plan(
            groups=dict.fromkeys(f"{i:04}" for i in range(1000)),
            confidence_level=[0.5, 0.9],
        )
        assert rounds.longest_report(PLAN) == fc.Report.limit.size
        assert (
            fc.Report.limit.size
            < rounds.longest_report(grouped)
            <= fc.Report.limit.largest
        )

    def test_the_longest_reports_without_groups_fit(self):
        """25 levels of 20 numbers, or 10,001 counts, with as many digits as they can
        have, indented.
        """
        values = tuple(-np.nextafter(1e-300, 1) * (1 + i) for i in range(20))
        sent = documents.Sent(ranks=tuple(range(2**30 - 20, 2**30)), values=values)
        longest = [
            documents.RanksPayload(levels=(sent,) * 25),
            documents.CurvePayload(counts=(-(2**62),) * 10_001),
        ]
        for payload in longest:
            part = documents.ReportPart(n=2**30, payload=payload)
            report = fc.Report(
                plan=PLAN.digest,
                site="n" * 200,
                parts=(part,),
                signature=f"ed25519:{0:0128}",
            )
            assert fc.Report.from_json(report.to_json()) == report

    def test_plans_on_the_largest_grids_can_be_read(self):
        grid = fc.Bins(tuple(np.nextafter(i / 7, 9) for i in range(10_000)))
        groups = fc.plan(groups={f"{i}": [30, 30] for i in range(10)}, curve=grid)
        assert fc.Plan.from_json(groups.to_json()) == groups


class TestContent:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"sites.0.count": 10**7 + 1}, "less than or equal to 10000000"),
            ({"sites.0.n": 2**30 + 1}, "less than or equal to 1073741824"),
            ({"message.levels.0.ranks.0": list(range(1, 28))}, "at most 20 items"),
            ({"message.levels": [{"ranks": [[1]]}] * 101}, "at most 100 items"),
            (
                {"message.levels.0.votes": [[2**20 + 1]]},
                "less than or equal to 1048576",
            ),
            (
                {"levels.0.votes": 10**42},
                "votes: Input should be less than or equal to",
            ),
            (
                {"sites": [{"count": 10**7, "n": n} for n in (9, 10)]},
                "at most 10,000,000 sites",
            ),
        ],
    )
    def test_what_a_plan_counts_is_limited(self, changes, words):
        plan = fc.plan(n_sites=1, n_points=9)
        with pytest.raises(fc.DocumentError, match=words):
            fc.Plan.from_json(
                forged(
                    plan,
                    {f"designs.0.{path}": value for path, value in changes.items()},
                )
            )

    def test_ten_million_equal_sites_can_be_planned_and_read(self):
        large = fc.plan(n_sites=10**7, n_points=20, confidence_level=0.9)
        again = fc.Plan.from_json(large.to_json())
        assert again == large
        assert again.law.mean() >= 0.9

    @pytest.mark.slow
    def test_levels_groups_and_cells_are_limited(self):
        grouped = fc.plan(
            groups=dict.fromkeys(f"{i:04}" for i in range(1000)), confidence_level=0.5
        )
        fields = content(grouped)
        fields["designs"].append({**fields["designs"][0], "group": "more"})
        with pytest.raises(fc.DocumentError, match="at most 1000 items"):
            fc.Plan.from_json(text(fields))
        with pytest.raises(
            ValueError, match="levels times groups must be at most 2,000, got 3,000"
        ):
            fc.plan(
                groups=dict.fromkeys(grouped.groups), confidence_level=[0.5, 0.6, 0.7]
            )
        with pytest.raises(
            ValueError, match="confidence_level must hold at most 100 levels, got 101"
        ):
            fc.plan(confidence_level=[0.5 + i / 1000 for i in range(101)])
        with pytest.raises(ValueError, match="at most 500 numbers"):
            fc.plan(confidence_level=[0.5 + i / 100 for i in range(26)], numbers=20)
        grid = fc.Bins.uniform(0, 1, 10_000)
        with pytest.raises(ValueError, match="at most 100,000, got 110,000"):
            fc.plan(groups=dict.fromkeys(map(str, range(11))), curve=grid)
        assert (
            fc.plan(
                curve=grid, confidence_level=[0.5 + i / 100 for i in range(11)]
            ).message.n_cells
            == 10_000
        )

    @pytest.mark.parametrize("field", ["count", "n"])
    def test_what_a_calibration_counts_is_limited(self, field):
        found = fc.calibrate(PLAN, [fc.report(PLAN, range(30), site="A")])
        with pytest.raises(
            fc.DocumentError, match=rf"{field}: Input should be less than or equal to"
        ):
            fc.Calibration.from_json(
                forged(found, {f"parts.0.design.sites.0.{field}": 10**12})
            )

    def test_many_faults_get_one_line(self):
        with pytest.raises(
            fc.DocumentError, match=r"sites.0.count: Field required \(and \d more\)"
        ):
            fc.Plan.from_json(forged(PLAN, {"designs.0.sites": [{"x": 1}] * 1000}))

    def test_an_object_of_many_fields_is_refused_by_their_number(self):
        fields = content(PLAN) | {f"x{i}": 1 for i in range(200)}
        with pytest.raises(
            fc.DocumentError, match="an object has 204 fields, more than 100"
        ):
            fc.Plan.from_json(text(fields))


class TestNames:
    @pytest.mark.parametrize(
        ("name", "form"),
        [
            (" north", "north"),
            ("north ", "north"),
            ("no\u200brth", "north"),
            ("no\u202erth", "north"),
            ("nor\u3164th", "north"),
            ("north\ufe0f", "north"),
            ("nor\x1bth", "north"),
            (unicodedata.normalize("NFD", "Žďár"), "Žďár"),
        ],
    )
    def test_a_name_has_one_form_and_another_is_told_which(self, name, form):
        with pytest.raises(ValueError, match=f": use '{form}'"):
            fc.plan([name, "south"])
        with pytest.raises(ValueError, match=f": use '{form}'"):
            fc.report(fc.plan(), range(30), site=name)
        assert fc.plan([form, "south"]).site_names == (form, "south")

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("Paris", "Раris"),  # the first two letters of the second are Cyrillic
            ("Oslo", "Οslo"),  # its first letter is Greek
            ("north", "North"),
            ("north", "ｎorth"),
            ("St Mary", "St  Mary"),
            # Armenian
            ("hong", "հօոց"),
            ("USO", "ՍՏՕ"),
            ("Oslo", "Օslo"),
            ("Lyon", "Լyon"),
            # Cherokee
            ("PARIS", "ᏢᎪᎡᏆᏚ"),
            ("Berlin", "Ᏼerlin"),
            ("paris", "ꮲaris"),
            # Small capitals
            ("north", "ɴᴏʀᴛʜ"),
            ("Bern", "Bᴇrn"),
            ("fuss", "ꜰuꜱs"),
            # Dashes, and other marks
            ("St-Mary", "St‐Mary"),
            ("St-Mary", "St‑Mary"),
            ("St-Mary", "St–Mary"),
            ("St-Mary", "St—Mary"),
            ("St-Mary", "St−Mary"),
            ("St-Mary", "St⁃Mary"),
            ("St–Mary", "St—Mary"),
            ("St Mary's", "St Mary’s"),
            ("St Mary's", "St Maryʼs"),
            ("a/b", "a⁄b"),
            ("ward: a", "ward∶ a"),
            # Greek, Coptic and Cyrillic
            ("cork", "ϲork"),
            ("Cork", "Ϲork"),
            ("Cork", "Ⲥork"),
            ("NIKH", "ΝΙΚΗ"),
            ("vavi", "νανι"),
            ("ë", "\u0451"),
            ("ВОЛГА", "Волга"),
            ("Волга", "Bолга"),
            ("Kiev", "Кіеѵ"),
            ("Paris", "Ρaris"),
            # Other scripts, and symbols
            ("yo", "ყჿ"),
            ("LOND", "ꓡꓳꓠꓓ"),
            ("PADUA", "ᑭᗅᗪᑌᗅ"),
            ("Ulm", "ሀlm"),
            ("Oslo", "〇slo"),
            ("Oslo", "𝐎slo"),
            ("Oslo", "Ⓞslo"),
            ("BERN", "𐊂ERN"),
            ("ガラス工場", "ガラスエ場"),
            ("ロンドン", "口ンドン"),
            ("へいわ", "ヘいわ"),
            ("علي", "علی"),
            ("كرج", "کرج"),
        ],
    )
    def test_names_that_look_alike_are_refused(self, one, other):
        assert one != other
        with pytest.raises(
            ValueError, match="look alike: give one of them another name"
        ):
            fc.plan([one, other])
        with pytest.raises(ValueError, match="look alike"):
            fc.plan(groups={"a": {one: 30}, "b": {other: 30}}, confidence_level=0.5)

    @pytest.mark.parametrize(
        ("one", "other"), [("old", "оld"), ("0-10", "0–10"), ("a b", "a  b")]
    )
    def test_nor_groups_and_classes_that_do(self, one, other):
        with pytest.raises(ValueError, match=r"the groups .* look alike"):
            fc.plan(groups={one: [30], other: [30]}, confidence_level=0.5)
        with pytest.raises(ValueError, match=r"the classes .* look alike"):
            fc.plan(
                2,
                30,
                confidence_level=0.5,
                score="lac",
                terms={"classes": [one, other]},
            )

    def test_classes_may_differ_by_case_alone(self):
        classes = ["a", "A", "b", "B", "0", "O", "1", "l", "I"]
        plan = fc.plan(2, 60, score="lac", terms={"classes": classes})
        assert list(plan.classes) == classes

    @pytest.mark.parametrize(
        "names",
        [
            ["München", "Munchen", "Köln", "Koln", "Gießen", "Fürth", "St. Pölten"],
            ["Αθήνα", "Θεσσαλονίκη", "Πάτρα", "Σάμος", "Ρόδος", "Κως", "Ιωάννινα"],
            ["Москва", "Минск", "Уфа", "Омск", "Томск", "Орёл", "Київ", "Одеса"],
            ["北京", "上海", "東京", "广州", "廣州", "日立", "目立"],
            [
                "東京病院",
                "ひらがな病院",
                "カタカナ病院",
                "Osaka医療センター",
                "第2ブロック",
            ],
            ["서울대병원", "부산", "대구", "인천", "Seoul 병원"],
            ["القاهرة", "الرياض", "بغداد", "مستشفى ١", "مستشفى ٢", "تهران"],
            ["दिल्ली", "मुंबई", "कोलकाता", "चेन्नई", "अस्पताल १", "अस्पताल २"],
            ["ירושלים", "תל אביב", "חיפה", "באר שבע"],
            ["Երևան", "Գյումրի", "Վանաձոր", "თბილისი", "ქუთაისი"],
            ["กรุงเทพ", "เชียงใหม่", "Hà Nội", "Huế", "Đà Nẵng", "Łódź", "Kraków"],
            [
                "Site 0",
                "Site O",
                "Site 1",
                "Site l",
                "Site I",
                "α-Klinik",
                "a-Klinik 2",
            ],
        ],
    )
    def test_ordinary_names_of_any_language_are_taken(self, names):
        assert fc.plan(names).site_names == tuple(names)


class TestWords:
    def test_whatever_is_shown_is_printable(self):
        """Every character of the first two planes."""
        every = "".join(map(chr, range(2**17)))
        assert visible(every, keep="").isprintable()
        for start in range(0, 2**16, 50):
            shown = one_line(every[start : start + 50], 50)
            assert shown.isprintable()
            assert len(shown) <= 50

    def test_printable_words_are_shown_as_they_are(self):
        assert (
            visible("São Paulo, 東京: 90\N{NO-BREAK SPACE}%")
            == "São Paulo, 東京: 90\N{NO-BREAK SPACE}%"
        )
        assert visible(RED) == "\\x1b[31mred\\x1b[0m"

    @pytest.mark.parametrize("control", HIDDEN)
    def test_nothing_on_a_terminal_is_anybody_elses_control(self, control, capsys):
        say(f"wrote {control}file")
        table([{"site": f"{control}north"}])
        print_json({"site": control})
        assert main(["report", f"{control}.json", "none.csv", "--site", "A"]) == 2
        main(["plan", "--sites", f"{control}A,B", "--confidence-level", f"{control}"])
        printed = capsys.readouterr()
        assert (printed.out + printed.err).replace("\n", "").isprintable()

    def test_a_refusal_is_printable_and_short_where_it_is_made(self):
        made = Refusal(source=f"{RED}.json", reason="x\n" * 1000 + RED)
        assert made.source == "\\x1b[31mred\\x1b[0m.json"
        assert made.reason.startswith("x x x")
        assert len(made.reason) == 400

    @pytest.mark.parametrize("field", ["source", "reason"])
    @pytest.mark.parametrize("words", [RED, "two\nlines", "x" * 401])
    def test_a_calibration_with_other_refusals_is_refused(self, field, words):
        reports = [fc.report(PLAN, range(n), site=name) for name, n in SIZES.items()]
        unreadable = [Refusal(source="a file", reason="no report")]
        fields = content(
            fc.calibrate(PLAN, reports, on_refused="skip", unreadable=unreadable)
        )
        fields["refused"][0][field] = words
        with pytest.raises(fc.DocumentError, match=rf"refused.0.{field}: "):
            fc.Calibration.from_json(text(fields))

    def test_a_servers_log_shows_no_control_of_a_nodes_name(self, caplog):
        log = logging.getLogger("fedconformal.tests")
        collection = rounds.ReportCollection(
            PLAN, {1: RED, 2: "B"}, engine="Flower", log=log
        )
        collection.receive(1, "{}")
        collection.receive(2, fc.report(PLAN, range(30), site="B").to_json(indent=None))
        with caplog.at_level(logging.WARNING, log.name):
            collection.calibrate(timeout=1, on_refused="skip")
        assert "\\x1b[31mred" in caplog.text
        assert "\x1b" not in caplog.text

    def test_a_page_shows_no_control(self):
        from fedconformal.pages import _render

        template = _render._environment().from_string(
            '<p title="{{ hint }}">{{ text }}</p>'
        )
        shown = template.render(text=f"{RED} \u202e <b>", hint="\u2066'")
        assert (
            shown
            == '<p title="\\u2066&#39;">\\x1b[31mred\\x1b[0m \\u202e &lt;b&gt;</p>'
        )

    def test_parameters_of_a_score_are_printable(self):
        fields = content(PLAN)
        fields["score"] = {"name": "mine", "parameters": {"kind": RED}}
        with pytest.raises(fc.DocumentError, match=r"score.parameters.kind"):
            fc.Plan.from_json(text(fields))


class TestFlower:
    """A message that carries anything but what was asked for is refused, with a
    reason.
    """

    @pytest.fixture(autouse=True)
    def identity(self):
        pytest.importorskip("flwr", reason="the extra [flower] is not installed")
        from flwr.supercore.task_identity import TaskIdentity

        TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1

    def extras(self):
        from flwr.app import ArrayRecord, ConfigRecord, MetricRecord

        return {
            "junk": ArrayRecord([np.zeros(10**5)]),
            "more": ConfigRecord({"bytes": b"x" * 10**5}),
            "sums": MetricRecord({"a": 1.0}),
        }

    def test_a_reply(self):
        from flwr.app import ConfigRecord, RecordDict

        from fedconformal.flower import _client

        packed = fc.report(PLAN, range(30), site="A").to_json(indent=None)

        class Reply:
            content = RecordDict({"conformal": ConfigRecord({"report": packed})})

        assert _client.read_field(Reply, "report") == packed
        for name, record in self.extras().items():
            Reply.content = RecordDict(
                {"conformal": ConfigRecord({"report": packed}), name: record}
            )
            with pytest.raises(
                fc.DocumentError, match=f"carries '{name}' beside the report"
            ):
                rounds.unpack_report(_client.read_field(Reply, "report"))
        Reply.content = RecordDict(
            {"conformal": ConfigRecord({"report": packed, "model": b"x"})}
        )
        with pytest.raises(fc.DocumentError, match="carries 'model' beside the report"):
            rounds.unpack_report(_client.read_field(Reply, "report"))

    def test_a_question(self):
        from flwr.app import ArrayRecord, ConfigRecord, RecordDict

        from fedconformal.flower import _client

        packed = ConfigRecord({"plan": rounds.pack_plan(PLAN)})

        class Question:
            content = RecordDict(
                {"conformal": packed, "arrays": ArrayRecord([np.zeros(3)])}
            )

        assert (
            rounds.unpack_plan(_client.read_field(Question, "plan", beside="arrays"))
            == PLAN
        )
        for name, record in self.extras().items():
            Question.content = RecordDict({"conformal": packed, name: record})
            with pytest.raises(
                fc.DocumentError, match=f"carries '{name}' beside the plan"
            ):
                rounds.unpack_plan(
                    _client.read_field(Question, "plan", beside="arrays")
                )

    def test_a_site_answers_it_with_a_code(self, caplog):
        failure = rounds.CALIBRATE.answer(
            fc.DocumentError("the message carries 'junk' beside the plan"),
            lambda plan: range(30),
            lambda plan: rounds.Site("A"),
            log=logging.getLogger("fedconformal.tests"),
        )
        assert failure is rounds.Failure.PLAN
        assert "carries 'junk' beside the plan" in caplog.text


class TestOutputs:
    @pytest.fixture
    def mask(self):
        before = os.umask(0)
        yield os.umask
        os.umask(before)

    @pytest.mark.parametrize(
        ("mask_bits", "mode"),
        [(0o022, 0o644), (0o077, 0o600), (0o027, 0o640), (0, 0o644)],
    )
    def test_an_output_has_the_permissions_that_the_umask_leaves(
        self, tmp_path, mask, mask_bits, mode
    ):
        mask(mask_bits)
        _outputs.write_text(tmp_path / "plan.json", "{}", force=False)
        _outputs.write_text(tmp_path / "secret", "key", force=False, mode=0o600)
        assert stat.S_IMODE((tmp_path / "plan.json").stat().st_mode) == mode
        assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600

    @pytest.mark.parametrize(
        "command", [["keys", "new", "A", "-o", "out"], ["policy", "new", "out"]]
    )
    def test_a_link_in_the_place_of_an_output_is_not_followed(
        self, tmp_path, monkeypatch, command
    ):
        monkeypatch.chdir(tmp_path)
        target, link = tmp_path / "target", tmp_path / "out"
        target.write_text("precious")
        link.symlink_to(target)
        assert main(command) == 2
        assert main([*command, "--force"]) == 0
        assert not link.is_symlink()
        assert target.read_text() == "precious"

    def test_nor_in_the_folder_of_a_round(self, tmp_path):
        folder = rounds.Folder(tmp_path / "round", PLAN)
        target = tmp_path / "target"
        target.write_text("precious")
        (folder.path / "refused.jsonl").symlink_to(target)
        with pytest.raises(OSError, match="symbolic link"):
            folder.keep_refusal(None, Refusal(source="x", reason="y"))
        assert target.read_text() == "precious"

    def test_nor_in_the_folder_of_the_demonstration(self, tmp_path):
        target = tmp_path / "target"
        target.write_text("precious")
        (tmp_path / "demo").mkdir()
        (tmp_path / "demo" / "sizes.csv").symlink_to(target)
        assert main(["demo", "--directory", str(tmp_path / "demo")]) == 0
        assert target.read_text() == "precious"

    def test_a_new_key_is_its_owners_and_one_that_others_may_read_gets_a_warning(
        self, tmp_path, monkeypatch, mask, capsys
    ):
        mask(0)
        monkeypatch.chdir(tmp_path)
        assert main(["keys", "new", "A"]) == 0
        assert stat.S_IMODE(Path("A.key").stat().st_mode) == 0o600
        capsys.readouterr()
        assert main(["keys", "show", "A.key"]) == 0
        assert capsys.readouterr().err == ""
        Path("A.key").chmod(0o640)
        assert main(["keys", "show", "A.key"]) == 0
        said = (
            "fedconformal: A.key: others may read this private key; chmod 600 keeps it"
            " yours\n"
        )
        assert capsys.readouterr().err == said

    @pytest.mark.parametrize("suffix", ["csv", "parquet", "json"])
    def test_a_full_disk_is_one_line_in_every_format(self, tmp_path, suffix):
        frame = pl.DataFrame({"a": np.random.default_rng(0).random(20_000)})
        writers = {
            "csv": frame.write_csv,
            "parquet": frame.write_parquet,
            "json": lambda path: path.write_text("x" * 100_000),
        }
        path, limits = (
            tmp_path / f"out.{suffix}",
            resource.getrlimit(resource.RLIMIT_FSIZE),
        )
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        try:
            with pytest.raises(
                ValueError, match=rf"out.{suffix}: cannot be written: .+"
            ) as caught:
                _outputs.write_atomically(path, writers[suffix], force=False)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert "\n" not in str(caught.value)
        assert list(tmp_path.iterdir()) == []


class TestTables:
    """What is in a file of scores."""

    @pytest.fixture
    def private(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        privacy = fc.Privacy(epsilon=10.0, bins=fc.Bins.uniform(0, 1, 20))
        chosen = fc.plan(
            n_sites=5,
            n_points=60,
            confidence_level=0.5,
            privacy=privacy,
            score="absolute",
        )
        Path("plan.json").write_text(chosen.to_json())
        fc.Ledger.create("site.db").set_budget("D", 100)
        return [
            "report",
            "plan.json",
            "--site",
            "A",
            "--ledger",
            "site.db",
            "--dataset",
            "D",
            "--yes",
        ]

    def test_private_scores_that_are_no_numbers_are_clipped_and_never_quoted(
        self, private, capsys
    ):
        odd = [
            "SECRET",
            "SECRET,and,more",
            "true",
            '"SECRET"',
            "1,5",
            "\xff",
            '"SECRET',
            "",
        ]
        Path("scores.csv").write_bytes(
            "\n".join(["score", *["0.25"] * 52, *odd, ""]).encode("latin-1")
        )
        assert main([*private, "scores.csv"]) == 0
        printed = capsys.readouterr()
        assert "SECRET" not in printed.out + printed.err
        assert "row" not in printed.err

    def test_so_are_private_cases_and_columns_of_text_are_refused(
        self, private, capsys
    ):
        """A text of any length would decide whether a Parquet file can be read: its
        schema is public.
        """
        pl.DataFrame({"score": ["0.25"] * 59 + ["SECRET"]}).write_parquet(
            "scores.parquet"
        )
        fc.Ledger("site.db").set_budget("E", 100)
        assert main([*private, "scores.parquet", "--dataset", "E"]) == 2
        Path("cases.csv").write_text(
            "y,guess\n" + "1.0,0.75\n" * 58 + "SECRET,1\n1,SECRET\n"
        )
        assert (
            main([*private, "cases.csv", "--target", "y", "--prediction", "guess"]) == 0
        )
        printed = capsys.readouterr()
        assert "SECRET" not in printed.out + printed.err


class TestKeys:
    """Points of small order, from the curve itself: -x^2 + y^2 = 1 + d x^2 y^2 modulo
    p.
    """

    P = 2**255 - 19
    D = -121665 * pow(121666, -1, 2**255 - 19) % (2**255 - 19)
    ORDER = 2**252 + 27742317777372353535851937790883648493

    def add(self, one, other):
        (a, b), (c, d), p = one, other, self.P
        product = self.D * a * b * c * d
        x = (a * d + b * c) * pow(1 + product, -1, p)
        return x % p, (b * d + a * c) * pow(1 - product, -1, p) % p

    def times(self, n, point):
        found = (0, 1)
        for bit in bin(n)[2:]:
            found = self.add(found, found)
            if bit == "1":
                found = self.add(found, point)
        return found

    def root(self, square):
        """A square root modulo p, or None."""
        p = self.P
        for factor in (1, pow(2, (p - 1) // 4, p)):
            x = pow(square, (p + 3) // 8, p) * factor % p
            if x * x % p == square % p:
                return x
        return None

    def torsion(self):
        """The eight points that the order of the curve's base point takes to
        nothing.
        """
        found, y = set(), 2
        while len(found) < 8:
            x = self.root((y * y - 1) * pow(self.D * y * y + 1, -1, self.P))
            if x is not None:
                point = self.times(self.ORDER, (x, y))
                found |= {self.times(k, point) for k in range(8)}
            y += 1
        return found

    def encodings(self):
        """All ways to write these points: y need not be below p, and the sign of x = 0
        may be any.
        """
        for x, y in self.torsion():
            for written in (y, y + self.P):
                for sign in {x & 1} if x else {0, 1}:
                    if written < 2**255:
                        yield (written | sign << 255).to_bytes(32, "little")

    def test_keys_of_small_order_are_refused_however_they_are_written(self):
        keys = set(self.encodings())
        assert len(self.torsion()) == 8
        assert len(keys) == 14
        for key in keys:
            with pytest.raises(ValueError, match="small order"):
                fc.plan(["A"], keys={"A": f"ed25519:{key.hex()}"})

    def test_a_signature_that_anyone_can_make_for_one_is_not_accepted(self):
        """Nothing times the base point is nothing plus any multiple of the point of
        order 1.
        """
        nothing = (1).to_bytes(32, "little")
        key = fc.SigningKey.new()
        signed = fc.plan(["A"], keys={"A": key.public_key})
        fields = content(signed)
        fields["keys"][0]["public_key"] = f"ed25519:{nothing.hex()}"
        report = fc.report(signed, range(30), site="A", key=key).model_copy(
            update={"signature": f"ed25519:{(nothing + bytes(32)).hex()}"}
        )
        with pytest.raises(fc.DocumentError, match="small order"):
            fc.calibrate(fc.Plan.from_json(text(fields)), [report])
