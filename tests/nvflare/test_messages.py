"""FLARE's tasks and results without its processes: everything travels as FLARE's own
bytes.
"""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from every_plan import PLANS, SITES, Round, scores_and_labels

import fedconformal as fc

pytest.importorskip("nvflare", reason="the extra [nvflare] is not installed")

from flare_deployment import ALLOWED
from flare_engine import JOB, LocalFlare, Scores
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_exception import UnsafeComponentError
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.app_common.default_component_policy import DEFAULT_CLASS_ALLOW_LIST
from nvflare.app_common.widgets.component_path_authorizer import ComponentPathAuthorizer
from nvflare.fuel.hci.cmd_arg_utils import validate_text_file_name

from fedconformal.nvflare import (
    ConformalController,
    ConformalExecutor,
    ConformalRecipe,
    Failure,
    calibrate,
    read_calibration,
)
from fedconformal.nvflare._controller import read_model
from fedconformal.protocol import model_digest

TASK, CHECK_TASK = "conformal", "conformal_check"
MODEL = {
    "weights": np.arange(6.0).reshape(2, 3),
    "nested": {"bias": [1, 2.5]},
    "name": "m",
    "raw": b"\x00",
}

SECRET = "patient 4711"
GUIDE = Path(__file__).parents[2] / "docs" / "nvflare.md"


def draws(seed, n=50):
    return np.random.default_rng(seed).random(n)


DATA = {"A": draws(1), "B": draws(2), "C": draws(3)}
PLAN = fc.plan(n_points=dict.fromkeys(DATA, 50), confidence_level=0.8)


def reports(plan, data, **options):
    return [
        fc.report(plan, scores, site=name, **options) for name, scores in data.items()
    ]


@pytest.fixture
def flare(tmp_path):
    """A federation of the given sites: scores, or an executor of their own."""

    def make(sites=DATA, **options):
        executors = {
            name: given if isinstance(given, ConformalExecutor) else Scores(given)
            for name, given in sites.items()
        }
        return LocalFlare(tmp_path, executors, **options)

    return make


def ask(federation, plan, **options):
    controller = ConformalController(plan)
    controller.set_communicator(federation)
    return calibrate(controller, plan, federation.fl_ctx, **options)


@pytest.mark.parametrize(
    "plan",
    [
        fc.plan(confidence_level=0.9),
        fc.plan(
            n_points={"A": 50, "B": 50, "C": 50, "D": 70}, confidence_level=[0.8, 0.9]
        ),
    ],
    ids=["open", "missing"],
)
def test_the_same_calibration_as_from_files(plan, flare):
    """A whole job."""
    federation = flare()
    assert federation.run(federation.deploy(ConformalRecipe(plan, timeout=5))) == []
    results = federation.home / "server" / JOB
    expected = fc.calibrate(plan, reports(plan, DATA)).to_json()
    assert (results / "calibration.json").read_text() == expected + "\n"
    assert read_calibration(results).to_json() == expected
    kept = [
        fc.Report.read(file) for file in (results / "reports").glob("report-*.json")
    ]
    assert sorted(kept, key=lambda report: report.site) == reports(plan, DATA)


@pytest.mark.parametrize("name", PLANS)
def test_every_plan_gives_the_same_bytes_as_through_files(name, flare, tmp_path):
    given = Round(name, tmp_path)
    federation = flare({site: scores_and_labels(site) for site in SITES})
    for site, files in given.files.items():
        lines = [f"{key} = {json.dumps(text)}\n" for key, text in files.items()]
        (federation.local(site) / "fedconformal.toml").write_text("".join(lines))
    assert (
        federation.run(federation.deploy(ConformalRecipe(given.plan, timeout=5))) == []
    )
    sent, expected = given.expected()
    assert (
        read_calibration(federation.home / "server" / JOB).to_json()
        == expected.to_json()
    )
    assert sorted(
        Shareable.from_bytes(result)["report"] for result in federation.results.values()
    ) == sorted(report.to_json(indent=None) for report in sent)


def masked_round(flare, tmp_path, headers):
    """Run a masked round, in which sites get these headers; return the federation."""
    given = Round("masked curve", tmp_path)
    sites = {site: scores_and_labels(site) for site in SITES}
    federation = flare(sites, headers=headers)
    for site, files in given.files.items():
        lines = [f"{key} = {json.dumps(text)}\n" for key, text in files.items()]
        (federation.local(site) / "fedconformal.toml").write_text("".join(lines))
    return federation, given


def test_masks_cancel_if_all_sites_get_the_same_headers(flare, tmp_path):
    headers = {site: {"preset": "usual"} for site in SITES}
    federation, given = masked_round(flare, tmp_path, headers)
    found = ask(federation, given.plan, timeout=5)
    assert found.threshold == given.expected()[1].threshold


def test_no_masked_sum_if_one_site_gets_another_header(flare, tmp_path):
    """A site's function finds headers of the task in its context."""
    federation, given = masked_round(flare, tmp_path, {"B": {"preset": "broken"}})
    with pytest.raises(ValueError, match="sum over all sites"):
        ask(federation, given.plan, timeout=5)


def test_without_code_of_its_own_the_site_names_its_function(
    flare, monkeypatch, tmp_path
):
    custom = tmp_path / "custom"
    custom.mkdir()
    (custom / "hospital_scores.py").write_text(
        "def scores(plan, model, fl_ctx):\n    return range(50)\n"
    )
    monkeypatch.syspath_prepend(custom)
    settings = {
        "A": 'scores = "hospital_scores:scores"',
        "B": 'scores = "hospital_scores"',
        "C": "",
    }
    federation = flare({name: ConformalExecutor() for name in settings})
    for name, text in settings.items():
        (federation.local(name) / "fedconformal.toml").write_text(text)
    assert ask(federation, PLAN).missing == ("B", "C")
    assert (
        'scores must be "package.module:function"'
        in (tmp_path / "B" / "fedconformal-log").read_text()
    )
    assert (
        "a training script's answer(), got None"
        in (tmp_path / "C" / "fedconformal-log").read_text()
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('site = "B"', "fedconformal.toml: site: Extra inputs are not permitted"),
        ("ledger = 5", "ledger: Input should be a valid string"),
        ("check_epsilon = true", "check_epsilon: Input should be a valid number"),
        ("no toml at all", "Traceback"),
    ],
)
def test_a_site_whose_configuration_is_wrong_answers_nothing(
    text, reason, flare, tmp_path
):
    federation = flare()
    (federation.local("A") / "fedconformal.toml").write_text(text)
    assert ask(federation, PLAN).missing == ("A",)
    assert reason in (tmp_path / "A" / "fedconformal-log").read_text()


@pytest.mark.parametrize("error", [RuntimeError(SECRET), KeyboardInterrupt(SECRET)])
def test_whatever_is_raised_stays_in_the_site_s_own_log(error, flare, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    federation = flare({**DATA, "A": error})
    assert ask(federation, PLAN).missing == ("A",)
    assert SECRET.encode() not in federation.results["A"]
    assert SECRET not in caplog.text  # which has all that FLARE's own logs could have
    assert SECRET in (tmp_path / "A" / "fedconformal-log").read_text()
    assert f"A sent no report: {Failure.SCORES.meaning}" in caplog.text
    assert f"the server receives only: {Failure.SCORES.meaning}" in caplog.text


def test_the_site_s_log_has_what_leaves_and_is_where_flare_does_not_stream_from(
    flare, tmp_path
):
    federation = flare()
    ask(federation, PLAN)
    report = Shareable.from_bytes(federation.results["B"])["report"]
    assert (
        f"this is everything that leaves the site: {report}"
        in (tmp_path / "B/fedconformal-log").read_text()
    )
    assert list((tmp_path / "B" / JOB).iterdir()) == []  # the folder of a job's logs
    assert (
        validate_text_file_name("fedconformal-log") != ""
    )  # FLARE's console does not show it
    assert (tmp_path / "B" / "fedconformal-log").stat().st_mode & 0o077 == 0
    assert len(federation.results["B"]) <= 2048


def test_a_log_that_cannot_be_written_loses_the_detail_and_nothing_else(
    flare, tmp_path, caplog
):
    caplog.set_level(logging.DEBUG)
    federation = flare({**DATA, "A": RuntimeError(SECRET)})
    federation.local("A")
    (tmp_path / "A" / "fedconformal-log").mkdir()
    assert ask(federation, PLAN).missing == ("A",)
    assert SECRET not in caplog.text


def test_a_broken_context_is_a_code_too(flare, capfd):
    executor = Scores(DATA["A"])
    federation = flare()
    fl_ctx = federation.context("A")
    del fl_ctx.get_engine().workspace
    result = executor.execute(TASK, Shareable(), fl_ctx, Signal())
    assert (result.get_return_code(), result["failure"]) == (
        ReturnCode.EXECUTION_EXCEPTION,
        Failure.SITE,
    )
    assert "Traceback" not in capfd.readouterr().err


def test_a_site_speaks_under_the_name_that_it_was_provisioned_under(flare):
    def pose(name, result):
        if name == "B":
            result["report"] = fc.report(PLAN, DATA["B"], site="C").to_json(indent=None)
        return result

    found = ask(flare(tamper=pose), PLAN)
    assert found.missing == ("B",)
    assert [(r.source, r.reason) for r in found.refused] == [
        ("B", "registered as 'B', but reports as 'C'")
    ]


STRANGE = {
    "more beside": lambda result: result.update(extra=1),
    "no report": lambda result: result.pop("report"),
    "no text": lambda result: result.update(report=b"{}"),
}


@pytest.mark.parametrize("tamper", STRANGE.values(), ids=STRANGE)
def test_a_reply_that_is_none_is_refused_and_named(tamper, flare):
    def strange(name, result):
        if name == "A":
            tamper(result)
        return result

    found = ask(flare(tamper=strange), PLAN)
    assert [refusal.source for refusal in found.refused] == ["A"]
    assert found.missing == ("A",)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (ReturnCode.TASK_UNSUPPORTED, "its executor does not know the task"),
        (SECRET, "FLARE's error code unknown"),
        (7, "FLARE's error code unknown"),
    ],
)
def test_flare_s_own_errors_count_as_missing_and_their_text_is_not_repeated(
    code, words, flare, caplog
):
    caplog.set_level(logging.INFO)
    found = ask(
        flare(tamper=lambda name, result: make_reply(code) if name == "A" else result),
        PLAN,
    )
    assert found.missing == ("A",)
    assert f"A sent no report: {words}" in caplog.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("content", [{}, {"plan": b"x", "ask": 1}, {"model": 3}])
def test_a_question_that_is_none_gets_a_code(content, flare):
    result = Scores(DATA["A"]).execute(
        TASK, Shareable(content), flare().context("A"), Signal()
    )
    assert result["failure"] == Failure.PLAN


def test_nobody_answers(flare):
    federation = flare(tamper=lambda name, result: None)
    (panic,) = federation.run(ConformalController(PLAN, timeout=0.5))
    assert panic.startswith("no calibration: ")
    assert not list(federation.home.rglob("calibration.json"))
    with pytest.raises(
        ValueError, match="the job has ended: no calibration: 0 sites answered"
    ):
        read_calibration(federation.home)


# -- jobs ------------------------------------------------------------------------------


def exported(recipe, folder):
    recipe.export(str(folder))
    (job,) = folder.iterdir()
    files = [file.relative_to(job) for file in job.rglob("*") if file.is_file()]
    return files, {
        side: json.loads(next(job.rglob(f"config_fed_{side}.json")).read_text())
        for side in ("server", "client")
    }


def test_an_exported_job_holds_every_argument_and_no_code(tmp_path, recwarn):
    awkward = fc.plan(
        n_points={"north (a) {HOME}": 50, 'so"uth\\ {': 50}, confidence_level=0.8
    )
    options = {
        "timeout": 7.5,
        "on_refused": "raise",
        "reports": "/srv/reports",
        "sites": ["a", "b"],
        "min_sites": 2,
        "check": True,
    }
    files, job = exported(
        ConformalRecipe(awkward, name="round", model=MODEL, **options),
        tmp_path / "jobs",
    )
    assert [file for file in files if file.parts[:2] != ("app", "config")] == [
        Path("meta.json")
    ]
    assert not [file for file in files if file.suffix == ".py"]
    *_, workflow = job["server"]["workflows"]
    assert workflow["path"] == "fedconformal.nvflare.ConformalController"
    made = ConformalController(**workflow["args"])
    (plan,) = tmp_path.rglob("plan.json")
    assert (made.plan, plan.parent.parent.name) == (plan.parent.name, "config")
    assert fc.Plan.read(plan) == awkward
    assert model_digest(read_model(plan.parent)) == model_digest(MODEL)
    assert {name: getattr(made, name) for name in options} == options
    (executor,) = job["client"]["executors"]
    assert executor == {
        "tasks": [TASK, CHECK_TASK],
        "executor": {"path": "fedconformal.nvflare.ConformalExecutor", "args": {}},
    }
    assert [
        str(warning.message) for warning in recwarn if "ecret" in str(warning.message)
    ] == []


@pytest.mark.parametrize("path", ALLOWED.values())
def test_a_site_allows_one_class_by_the_name_in_the_guide(path, flare):
    assert f"`{path}`" in GUIDE.read_text()
    authorizer, federation = ComponentPathAuthorizer(), flare()
    workspace = federation.context("A").get_workspace()
    resources = federation.local("A") / "resources.json"
    resources.write_text(
        json.dumps({"class_allow_list": list(DEFAULT_CLASS_ALLOW_LIST)})
    )
    with pytest.raises(UnsafeComponentError, match="not in allow_list"):
        authorizer.authorize_component_config(
            {"path": path, "args": {}}, workspace=workspace
        )
    resources.write_text(json.dumps({"class_allow_list": [path]}))
    authorizer.authorize_component_config(
        {"path": path, "args": {}}, workspace=workspace
    )


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            {"plan": PLAN, "timeout": 0},
            ValueError,
            "timeout must be a finite number of seconds",
        ),
        ({"plan": PLAN, "on_refused": "ignore"}, ValueError, "on_refused must be"),
        ({"plan": 5}, TypeError, "plan must be a Plan"),
        ({"plan": "../elsewhere"}, TypeError, "plan must be a Plan"),
        ({"plan": ".."}, TypeError, "plan must be a Plan"),
        ({"plan": ""}, TypeError, "plan must be a Plan"),
        (
            {"plan": PLAN, "reports": "kept"},
            ValueError,
            "reports must be an absolute path at the server",
        ),
    ],
)
def test_a_controller_that_cannot_work_is_not_made(arguments, error, words):
    with pytest.raises(error, match=words):
        ConformalController(**arguments)


def test_what_comes_when_the_round_is_over_is_left_out(caplog, flare):
    controller = ConformalController(PLAN)
    federation = flare()
    controller.start_controller(federation.fl_ctx)
    controller.process_result_of_unknown_task(
        federation.get_clients()[0], TASK, "1", Shareable(), federation.fl_ctx
    )
    controller.stop_controller(federation.fl_ctx)
    assert "A answered when the round was over: left out" in caplog.text
