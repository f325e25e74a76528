"""The desk: a folder of documents that the command line reads too, and a page that
shows what it holds.
"""

import json
import os
import re
from urllib.parse import urlsplit

import numpy as np
import pytest
from asking import ask, post
from reading import Reader

import fedconformal as fc
from fedconformal.cli import main
from fedconformal.pages import create_app, serve
from fedconformal.pages._answer import answer_page
from fedconformal.pages._desk import Desk, show
from fedconformal.pages._server import background
from fedconformal.pages._worker import answer

SIZES = {"north": 120, "south": 40, "St. Mary's": 377, "east/../..": 88}
QUESTION = {"points": list(SIZES.values()), "names": list(SIZES), "score": "absolute"}


def order(folder, name, content=None):
    """Status and words of an answer: the text of a fragment, or the reason of a
    refusal.
    """
    body = content if isinstance(content, bytes) else json.dumps(content or {}).encode()
    reply = answer(name, body, {}, folder)
    return reply.status, (
        Reader(reply.text).text
        if reply.status == 200
        else json.loads(reply.text)["error"]
    )


def drop(folder, document):
    return order(folder, "receive", document.to_json().encode())


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*.*")
    }


def report(plan, site, seed=0, n=None):
    scores = np.random.default_rng(seed).gamma(2.0, size=n or SIZES[site])
    return fc.report(plan, scores, site=site)


@pytest.fixture
def folder(tmp_path):
    """A folder with a plan of the page."""
    assert order(tmp_path / "stay", "save", QUESTION) == (200, "")
    return tmp_path / "stay"


@pytest.fixture
def plan(folder):
    return fc.Plan.read(folder / "plan.json")


@pytest.fixture
def calibrated(folder, plan):
    for site in SIZES:
        assert drop(folder, report(plan, site)) == (200, "")
    assert order(folder, "calibrate")[0] == 200
    return fc.Calibration.read(folder / "calibration.json")


class TestPlan:
    def test_it_is_the_plan_of_the_question(self, plan):
        assert plan == fc.plan(n_points=SIZES, score="absolute")

    def test_it_is_never_replaced(self, folder):
        before = files(folder)
        status, reason = order(folder, "save", {"sites": 3, "points": 50})
        assert (
            status,
            reason.endswith(
                "plan.json is there already: move it away to write another one"
            ),
        ) == (
            422,
            True,
        )
        assert files(folder) == before

    def test_the_page_says_what_to_send(self, folder, plan):
        status, page = order(folder, "desk")
        assert status == 200
        assert "if the model errs equally at every site." in page
        assert (
            "answer.html , the page that fedconformal page -o answer.html writes"
            in page
        )
        assert plan.digest in page
        assert (
            "No site answered, 4 missing: St. Mary's, east/../.., north, south" in page
        )

    @pytest.mark.parametrize(
        ("more", "reason"),
        [
            (
                {"privacy": {"epsilon": 2.0, "high": 9.0}},
                "does not answer plans of this kind",
            ),
            ({"score": "aps", "names": ["a"]}, "does not answer plans of this kind"),
            ({"keys": "a=ed25519:" + "5f" * 32}, "reports are signed with its key"),
        ],
    )
    def test_private_and_signed_plans_are_answered_by_the_command(
        self, tmp_path, more, reason
    ):
        assert (
            order(tmp_path, "save", {"points": [400], "names": ["a"], **more})[0] == 200
        )
        page = order(tmp_path, "desk")[1]
        assert reason in page
        assert (
            "fedconformal report plan.json cases.csv --site NAME -o report.json" in page
        )

    @pytest.mark.parametrize(
        ("keys", "reason"),
        [
            (
                "a=ed25519:" + "5f" * 32,
                "keys must hold one public key for each named site, and no other",
            ),
            ("a=ed25519:5f\nb=x", "the key of 'a' must be"),
            (
                ("a=ed25519:" + "5f" * 32 + "\n") * 2,
                "keys must have one line for each site",
            ),
        ],
    )
    def test_keys_are_for_all_sites_once(self, tmp_path, keys, reason):
        status, words = order(
            tmp_path, "save", {"points": [40, 50], "names": ["a", "b"], "keys": keys}
        )
        assert (status, reason in words) == (422, True), words
        assert not files(tmp_path)

    def test_what_is_no_plan_is_named(self, tmp_path):
        (tmp_path / "plan.json").write_text("{}")
        assert order(tmp_path, "desk") == (
            422,
            f"{tmp_path}/plan.json: not a plan: format: is missing",
        )


class TestAnswers:
    def test_who_answered_and_who_is_missing(self, folder, plan):
        assert drop(folder, report(plan, "south")) == (200, "")
        page = order(folder, "desk")[1]
        assert "1 site answered, 3 missing: St. Mary's, east/../.., north" in page
        assert re.search(r"south\s+40\s+20\d\d-\d\d-\d\d \d\d:\d\d", page)

    def test_names_of_files_are_ours(self, folder, plan):
        for site in SIZES:
            assert drop(folder, report(plan, site)) == (200, "")
        names = sorted(name for name in files(folder) if name != "plan.json")
        assert [name[:-18] for name in names] == [
            "reports/report-St_Mary_s",
            "reports/report-east_",
            "reports/report-north",
            "reports/report-south",
        ]

    def test_a_report_counts_once_and_another_one_of_its_site_is_refused(
        self, folder, plan
    ):
        drop(folder, report(plan, "north"))
        before = files(folder)
        assert drop(folder, report(plan, "north")) == (200, "")
        status, reason = drop(folder, report(plan, "north", seed=1))
        assert (status, reason.startswith("north: another report is in ")) == (
            422,
            True,
        )
        assert files(folder) == before

    def test_a_report_that_does_not_count_is_kept_with_its_reason(self, folder, plan):
        other = fc.report(fc.plan(n_points={"north": 120}), range(120), site="north")
        assert drop(folder, other) == (200, "")
        assert "north answers another plan" in " ".join(
            order(folder, "desk")[1].split()
        )
        assert drop(folder, report(plan, "north")) == (200, "")
        assert "1 site answered, 3 missing" in order(folder, "desk")[1]
        assert order(folder, "calibrate")[0] == 200
        assert len(fc.Calibration.read(folder / "calibration.json").refused) == 1

    @pytest.mark.parametrize(
        "content", [b"", b"{}", b"site,score\nnorth,1\nnorth,2\n", b"\xff" * 1000]
    )
    def test_what_is_no_report_is_refused_and_not_kept(self, folder, content):
        status, reason = order(folder, "receive", content)
        assert (status, "not a report" in reason) == (422, True)
        assert list(files(folder)) == ["plan.json"]

    def test_files_that_were_put_there_by_hand_count(self, folder, plan):
        (folder / "reports").mkdir()
        (folder / "reports" / "by hand.json").write_text(
            report(plan, "north").to_json()
        )
        (folder / "reports" / "nothing.json").write_text("{}")
        (folder / "reports" / ".left by a kill.json").write_text("{")
        desk = Desk(folder)
        assert [it.site for it in desk.intake.reports] == ["north"]
        assert [it.source for it in desk.intake.all_refused] == ["nothing.json"]

    def test_unnamed_sites_are_counted(self, tmp_path):
        order(tmp_path, "save", {"sites": 3, "points": 50})
        page = order(tmp_path, "desk")[1]
        assert "No site answered, 3 missing" in page
        drop(
            tmp_path,
            fc.report(fc.Plan.read(tmp_path / "plan.json"), range(50), site="A"),
        )
        assert "1 site answered, 2 missing" in order(tmp_path, "desk")[1]


class TestCalibration:
    def test_it_is_what_the_command_line_gives(
        self, folder, calibrated, monkeypatch, capsys
    ):
        monkeypatch.chdir(folder)
        assert main(["calibrate", "plan.json", "reports", "-o", "again.json"]) == 0
        assert fc.Calibration.read("again.json") == calibrated
        assert main(["verify", "calibration.json", "--reports", "reports"]) == 0
        page = order(folder, "desk")[1]
        assert repr(calibrated.threshold) in page
        assert "The promise holds if" in page
        assert re.search(
            r"(\d+) of \1 claims were verified by independent code, which recomputed",
            page,
        )
        assert (
            repr(calibrated.threshold)
            in Reader((folder / "certificate.html").read_text()).text
        )

    def test_the_certificate_is_verified_as_the_desk_is(self, folder, calibrated):
        """With the reports: as many claims, and not "without their reports"."""
        desk = order(folder, "desk")[1]
        (n,) = re.findall(r"(\d+) of \1 claims were verified", desk)

        def verified():
            page = Reader((folder / "certificate.html").read_text()).text
            assert "page was made without their reports" not in page
            words = "were verified by independent code, which recomputed"
            return re.findall(rf"(\d+) claims of (\d+) {words}", page)

        assert verified() == [(n, n)]
        assert order(folder, "certify", {"replace": True})[0] == 200
        assert verified() == [(n, n)]
        next((folder / "reports").glob("*north*")).unlink()
        assert order(folder, "certify", {"replace": True})[0] == 200
        page = Reader((folder / "certificate.html").read_text()).text
        assert "page was made without their reports" in page

    def test_nothing_is_replaced_without_saying_so(self, folder, calibrated):
        before = files(folder)
        for name in ("calibrate", "certify"):
            status, reason = order(folder, name)
            assert (status, "is there already" in reason) == (422, True)
            assert order(folder, name, {"replace": "yes"})[0] == 422
        assert files(folder) == before

    def test_a_late_report_asks_for_another_calibration(self, folder, plan):
        for site in list(SIZES)[:3]:
            drop(folder, report(plan, site))
        first = order(folder, "calibrate")[1]
        assert "The reports have changed since" not in first
        drop(folder, report(plan, "east/../.."))
        assert (
            "calibration.json is of 3 sites, and 4 count now"
            in order(folder, "desk")[1]
        )
        assert order(folder, "calibrate", {"replace": True})[0] == 200
        assert fc.Calibration.read(folder / "calibration.json").n_answers == 4
        assert "4 sites used" in Reader((folder / "certificate.html").read_text()).text

    def test_too_few_answers_are_a_sentence_and_nothing_is_written(self, folder):
        before = files(folder)
        assert order(folder, "calibrate") == (
            422,
            "0 sites answered: at least 1 is needed",
        )
        assert order(folder, "certify") == (
            422,
            "calibration.json is missing: calibrate first",
        )
        assert files(folder) == before

    def test_a_calibration_of_another_plan_is_named(self, folder, calibrated):
        (folder / "plan.json").write_text(fc.plan(n_points={"north": 120}).to_json())
        status, reason = order(folder, "desk")
        assert (
            status,
            "calibration.json is of another plan than plan.json" in reason,
        ) == (422, True)

    def test_a_forged_calibration_is_not_believed(self, folder, calibrated):
        content = json.loads(calibrated.to_json())
        content["parts"][0]["design"]["levels"][0]["votes"] = 1
        del content["digest"]
        forged = fc.Calibration.model_validate_json(json.dumps(content))
        (folder / "calibration.json").write_text(forged.to_json())
        assert "The claim of calibration.json does not hold" in order(folder, "desk")[1]
        assert "gets no certificate" in order(folder, "certify", {"replace": True})[1]

    def test_a_calibration_without_certificate_gets_one(self, folder, calibrated):
        before = (folder / "certificate.html").read_text()
        (folder / "certificate.html").unlink()
        assert "Write the certificate" in order(folder, "desk")[1]
        assert order(folder, "certify")[0] == 200
        assert (folder / "certificate.html").read_text() == before


class TestChecks:
    def check(self, calibration, site, shape=2.0):
        scores = np.random.default_rng(1).gamma(shape, size=300)
        return fc.monitoring.answer(calibration, scores, site=site)

    def test_they_are_assessed_as_compare_does(
        self, folder, calibrated, monkeypatch, capsys
    ):
        checks = [
            self.check(calibrated, "north"),
            self.check(calibrated, "south", shape=5.0),
        ]
        for check in checks:
            assert drop(folder, check) == (200, "")
        page = order(folder, "desk")[1]
        sentence = fc.monitoring.compare(calibrated, checks).sentence()
        assert "south" in sentence
        assert sentence in page.replace("\N{NO-BREAK SPACE}", " ")
        monkeypatch.chdir(folder)
        assert main(["compare", "calibration.json", "checks"]) == 0
        assert "south" in capsys.readouterr().out
        assert order(folder, "certify", {"replace": True})[0] == 200
        certificate = Reader((folder / "certificate.html").read_text()).text
        assert sentence in certificate.replace("\N{NO-BREAK SPACE}", " ")

    def test_a_site_has_one(self, folder, calibrated):
        drop(folder, self.check(calibrated, "north"))
        status, reason = drop(folder, self.check(calibrated, "north", shape=5.0))
        assert (status, reason.startswith("north: another check is in ")) == (422, True)

    def test_checks_of_many_periods_are_watched(self, folder, calibrated):
        rng = np.random.default_rng(2)
        checks = [
            fc.monitoring.answer(
                calibrated,
                rng.gamma(shape, size=100),
                site=site,
                period=f"2027-0{month}",
            )
            for site, shape in {"north": 2.0, "south": 4.0}.items()
            for month in (1, 2, 3)
        ]
        for check in checks:
            assert drop(folder, check) == (200, "")
        page = order(folder, "desk")[1]
        assert show(folder).count('<figure class="watch">') == 3
        assert "alarm since 2027-01" in page
        assert "The next reports are due for 2027-04" in page
        again = fc.monitoring.answer(
            calibrated, rng.gamma(2.0, size=9), site="north", period="2027-03"
        )
        assert drop(folder, again)[1] == "north: periods 2027-03 and 2027-03 overlap"
        assert drop(folder, self.check(calibrated, "north"))[0] == 422
        assert order(folder, "certify", {"replace": True})[0] == 200
        assert "alarm since 2027-01" in (folder / "certificate.html").read_text()

    def test_those_that_do_not_fit_are_refused(self, folder, plan, calibrated):
        alone = fc.calibrate(plan, [report(plan, site) for site in ("north", "south")])
        assert drop(folder, self.check(alone, "north"))[0] == 422
        (folder / "calibration.json").unlink()
        reason = "north: this is a check, and there is no calibration.json yet"
        assert drop(folder, self.check(calibrated, "north")) == (422, reason)
        assert not (folder / "checks").exists()

    def test_those_of_an_earlier_calibration_are_named(self, folder, plan, calibrated):
        (folder / "checks").mkdir()
        alone = fc.calibrate(plan, [report(plan, site) for site in ("north", "south")])
        (folder / "checks" / "old.json").write_text(
            self.check(alone, "north").to_json()
        )
        assert "another calibration" in order(folder, "desk")[1]

    def test_refused_ones_do_not_take_the_others_with_them(
        self, folder, plan, calibrated
    ):
        drop(folder, self.check(calibrated, "north"))
        alone = fc.calibrate(plan, [report(plan, site) for site in ("north", "south")])
        (folder / "checks" / "old.json").write_text(
            self.check(alone, "south").to_json()
        )
        (folder / "checks" / "nothing.json").write_text("{}")
        desk = Desk(folder)
        assert [check.site for check in desk.checks[0]] == ["north"]
        assert {(it.source, it.reason) for it in desk.checks[1]} == {
            ("old.json", "south: checks another calibration"),
            ("nothing.json", "not a check: format: is missing"),
        }
        assert (
            "Replace certificate.html by one with these checks, without the refused"
            " ones" in order(folder, "desk")[1]
        )
        assert drop(folder, self.check(calibrated, "south")) == (200, "")
        assert "after the last check had come" not in order(folder, "desk")[1]
        status, page = order(folder, "certify", {"replace": True})
        assert (status, "after the last check had come" in page) == (200, True)
        text = Reader((folder / "certificate.html").read_text()).text
        assert fc.monitoring.compare(
            calibrated, desk.checks[0] + [self.check(calibrated, "south")]
        ).sentence() in (text.replace("\N{NO-BREAK SPACE}", " "))

    def test_a_site_checks_every_month(self, folder, calibrated):
        def check(site, period):
            scores = np.random.default_rng(1).gamma(2.0, size=300)
            return fc.monitoring.answer(calibrated, scores, site=site, period=period)

        for month in ("2027-01", "2027-02"):
            assert drop(folder, check("north", month)) == (200, "")
        assert drop(folder, check("north", "2027-02")) == (200, "")
        status, reason = drop(folder, check("north", "2027-02-05/2027-03-04"))
        assert (status, "overlap" in reason) == (422, True)
        assert drop(folder, self.check(calibrated, "south")) == (
            422,
            "south: has no period, unlike the checks before it",
        )
        assert (
            "600 later cases since 2027-01, up to 2027-02" in order(folder, "desk")[1]
        )
        assert order(folder, "certify", {"replace": True})[0] == 200
        assert (
            "600 later cases since 2027-01"
            in Reader((folder / "certificate.html").read_text()).text
        )

    def test_a_lost_certificate_is_written_with_the_checks(self, folder, calibrated):
        drop(folder, self.check(calibrated, "north"))
        (folder / "certificate.html").unlink()
        reply = answer("desk", b"{}", {}, folder).text
        assert reply.count('id="certify"') == 1
        assert "Write the certificate with these checks" in reply


class TestServer:
    @pytest.fixture
    def address(self, folder, plan, calibrated):
        with background(create_app(folder=folder)) as url:
            yield urlsplit(url).netloc

    def test_requests_that_change_something_come_from_the_page_alone(
        self, address, folder, plan
    ):
        before, content = (
            files(folder),
            report(plan, "north", seed=1).to_json().encode(),
        )
        for path in ("save", "receive", "calibrate", "certify", "desk"):
            status, answered = post(
                address, f"/api/{path}", content, {"Origin": "http://evil.example"}
            )
            assert (status, answered) == (
                403,
                {"error": "a page of another origin may not ask"},
            )
            assert post(address, f"/api/{path}", content, {"Origin": "null"})[0] == 403
            assert (
                post(address, f"/api/{path}", content, {"Host": "evil.example"})[0]
                == 400
            )
            assert (
                post(address, f"/api/{path}", content, {"Content-Type": "text/plain"})[
                    0
                ]
                == 415
            )
            assert ask(address, "GET", f"/api/{path}")[0] == 405
        assert files(folder) == before

    def test_the_page_itself_is_answered(self, address, folder):
        status, fragment = post(
            address, "/api/desk", {}, {"Origin": f"http://{address}"}
        )
        assert (status, "4 sites answered" in fragment) == (200, True)
        page = ask(address, "GET", "/")[1].decode()
        assert "/assets/desk.js" in page
        assert os.fspath(folder) in page
        assert "/assets/planner.js" in ask(address, "GET", "/planner")[1].decode()

    def test_bodies_are_bounded(self, address, folder):
        before = files(folder)
        for path, most in (("receive", 4096), ("save", 128), ("calibrate", 128)):
            status, refused = post(address, f"/api/{path}", b" " * (1024 * most + 1))
            assert (status, refused) == (
                422,
                {"error": f"the body may have up to {most} KB"},
            )
        assert files(folder) == before

    def test_a_few_files_are_read_and_no_others(self, address, folder, plan):
        status, content, headers = ask(address, "GET", "/files/plan.json")
        assert (status, fc.Plan.from_json(content), headers["Content-Type"]) == (
            200,
            plan,
            "application/json",
        )
        status, content, headers = ask(address, "GET", "/files/certificate.html")
        assert (status, content) == (200, (folder / "certificate.html").read_bytes())
        assert headers["Content-Security-Policy"].startswith(
            "default-src 'none'; style-src 'unsafe-inline'; sandbox"
        )
        status, content, headers = ask(address, "GET", "/files/answer.html")
        assert (status, content.decode()) == (200, answer_page())
        assert headers["Content-Disposition"].startswith("attachment")
        name = next((folder / "reports").iterdir()).name
        for path in (
            f"reports/{name}",
            "../plan.json",
            "%2e%2e/plan.json",
            "",
            ".",
            "x.json",
        ):
            assert ask(address, "GET", f"/files/{path}")[0] == 404
        (folder / "certificate.html").unlink()
        (folder / "certificate.html").symlink_to("/dev/zero")
        assert ask(address, "GET", "/files/certificate.html")[0] == 404

    def test_without_a_folder_there_is_no_desk(self):
        with background() as url:
            address = urlsplit(url).netloc
            assert post(address, "/api/save", QUESTION)[0] == 404
            assert ask(address, "GET", "/files/plan.json")[0] == 404
            assert 'id="save"' not in ask(address, "GET", "/")[1].decode()

    def test_a_folder_that_is_a_file(self, folder):
        with pytest.raises(
            ValueError, match=r"folder must be a folder, got .*plan\.json"
        ):
            serve(folder=folder / "plan.json", port=0, browse=False)

    def test_a_folder_that_cannot_be_written(self, tmp_path):
        (tmp_path / "file").write_text("")
        status, reason = order(tmp_path / "file" / "stay", "save", QUESTION)
        assert (status, "Not a directory" in reason) == (422, True)


def test_nothing_is_written_behind_a_link(tmp_path):
    folder, outside = tmp_path / "desk", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    assert order(folder, "save", {"points": [400], "names": ["a"]})[0] == 200
    (folder / "reports").symlink_to(outside)
    plan = fc.Plan.read(folder / "plan.json")
    report = fc.report(plan, range(400), site="a")
    status, refusal = drop(folder, report)
    assert status == 422, refusal
    assert list(outside.iterdir()) == []
