"""Training scripts that use FLARE's Client API and answer a round themselves."""

import subprocess
import sys

import numpy as np
import pytest

import fedconformal as fc
from fedconformal import rounds

pytest.importorskip("nvflare", reason="the extra [nvflare] is not installed")

import nvflare.client as flare
from flare_engine import JOB, LocalFlare, Scores
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.executors.client_api_executor import (
    ClientAPIExecutor,
    ExecutionMode,
)
from nvflare.app_common.utils.fl_model_utils import FLModelUtils

from fedconformal.nvflare import (
    ConformalController,
    ConformalExecutor,
    Failure,
    answer,
    calibrate,
    check,
)

SECRET = "patient 4711"
MODEL = {"w": np.arange(3.0)}
CASES = {
    site: np.random.default_rng(i).normal(size=(50, 4)) for i, site in enumerate("ABC")
}
PLAN = fc.plan(
    n_points=dict.fromkeys(CASES, 50), confidence_level=0.8, score="absolute"
)


def cases_of(site, model):
    return {"truth": CASES[site][:, 0], "prediction": CASES[site][:, 1:] @ model["w"]}


def reports(plan=PLAN):
    return [
        fc.report(
            plan,
            np.abs(cases["truth"] - cases["prediction"]),
            site=site,
            score=plan.score,
        )
        for site in CASES
        for cases in [cases_of(site, MODEL)]
    ]


class Script(ClientAPIExecutor):
    """FLARE's executor of a training script, of which one turn of the loop runs
    here.
    """

    def __init__(self, turn):
        super().__init__(ExecutionMode.IN_PROCESS, task_script_path="client.py")
        self.turn = turn

    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        data = Shareable.from_bytes(shareable.to_bytes())
        sent = self.turn(fl_ctx.get_identity_name(), FLModelUtils.from_shareable(data))
        return sent if isinstance(sent, Shareable) else FLModelUtils.to_shareable(sent)


class Federation(LocalFlare):
    """Sites whose own executor finds one of a training script for every other task."""

    turn = staticmethod(
        lambda site, received: answer(
            received, lambda plan, model: cases_of(site, model)
        )
    )

    def context(self, name):
        fl_ctx = super().context(name)
        if name != "server":
            fl_ctx.set_prop(FLContextKey.RUNNER, self, private=True, sticky=False)
            self.current = name
        return fl_ctx

    def find_executor(self, task_name):
        return Script(self.turn)


@pytest.fixture
def federation(tmp_path, monkeypatch):
    made = Federation(tmp_path, {site: ConformalExecutor() for site in CASES})
    monkeypatch.setattr(flare, "get_job_id", lambda: JOB)
    monkeypatch.setattr(flare, "get_site_name", lambda: made.current)
    return made


def ask(federation, plan=PLAN, **options):
    controller = ConformalController(plan)
    controller.set_communicator(federation)
    return calibrate(controller, plan, federation.fl_ctx, model=MODEL, **options)


def log_of(federation, site):
    return (federation.home / site / "fedconformal-log").read_text()


def test_the_same_calibration_as_from_files(federation):
    assert ask(federation) == fc.calibrate(PLAN, reports())
    assert "this is everything that leaves the site" in log_of(federation, "B")


def test_calibrations_are_checked_where_the_script_has_new_cases(federation):
    def turn(site, received):
        new = (lambda plan, model: cases_of(site, model)) if site != "C" else None
        return answer(received, lambda plan, model: cases_of(site, model), new)

    federation.turn = turn
    calibration = ask(federation)
    controller = ConformalController(PLAN)
    controller.set_communicator(federation)
    assessment = check(controller, calibration, federation.fl_ctx, model=MODEL)
    assert {row.site for row in assessment.rows} == {"A", "B"}
    assert "check_scores must be a function" in log_of(federation, "C")


@pytest.mark.parametrize("error", [RuntimeError(SECRET), KeyboardInterrupt(SECRET)])
def test_whatever_the_script_raises_stays_in_the_site_s_own_log(
    error, federation, caplog
):
    def fail(plan, model):
        raise error

    federation.turn = lambda site, received: answer(received, fail)
    with pytest.raises(ValueError, match="0 sites answered"):
        ask(federation)
    assert {
        Shareable.from_bytes(sent)["failure"] for sent in federation.results.values()
    } == {Failure.SCORES}
    assert SECRET not in caplog.text
    assert SECRET in log_of(federation, "A")


def test_the_site_s_policy_binds_the_script_and_its_own_function_comes_first(
    federation, monkeypatch, tmp_path
):
    (federation.local("A") / "strict.toml").write_text("private_only = true\n")
    (federation.local("A") / "fedconformal.toml").write_text('policy = "strict.toml"\n')
    (tmp_path / "hospital_script.py").write_text(
        "def scores(plan, model, fl_ctx):\n    return {'truth': [0.0] * 50,"
        " 'prediction': [7.0] * 50}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    (federation.local("B") / "fedconformal.toml").write_text(
        'scores = "hospital_script:scores"\n'
    )
    calibration = ask(federation)
    assert calibration.missing == ("A",)
    assert Shareable.from_bytes(federation.results["A"])["failure"] == Failure.POLICY
    own = fc.report(PLAN, [7.0] * 50, site="B", score=PLAN.score).to_json(indent=None)
    assert Shareable.from_bytes(federation.results["B"])["report"] == own


def test_an_executor_with_a_function_of_the_job_s_own_asks_no_script(federation):
    federation.sites["B"] = Scores({"truth": [0.0] * 50, "prediction": [7.0] * 50})
    ask(federation)
    own = fc.report(PLAN, [7.0] * 50, site="B", score=PLAN.score).to_json(indent=None)
    assert Shareable.from_bytes(federation.results["B"])["report"] == own


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (
            FLModel(params={"w": np.ones(3)}),
            "the training script sent something else than an answer",
        ),
        (
            make_reply("TASK_ABORTED"),
            "the training script gave no answer: TASK_ABORTED",
        ),
    ],
)
def test_a_script_that_does_not_answer_is_told_how(sent, words, federation):
    federation.turn = lambda site, received: sent
    with pytest.raises(ValueError, match="0 sites answered"):
        ask(federation)
    assert words in log_of(federation, "A")


def test_nothing_but_a_report_leaves_where_the_server_asks_the_script_itself(
    federation, tmp_path, monkeypatch
):
    """No executor of this package said where the site's settings are: FLARE's folder
    for the script does.
    """
    (federation.local("A") / "strict.toml").write_text("private_only = true\n")
    (federation.local("A") / "fedconformal.toml").write_text('policy = "strict.toml"\n')
    federation.current = "A"
    received = FLModel(params=MODEL, meta={"plan": rounds.pack_plan(PLAN)})

    def ask_directly():
        return answer(received, lambda plan, model: cases_of("A", model)).metrics

    monkeypatch.setattr("fedconformal.nvflare._site._HOMES", {})
    assert ask_directly() == {"failure": Failure.SITE}
    app = tmp_path / "A" / JOB / "app_A"
    app.mkdir(parents=True)
    monkeypatch.chdir(app)
    assert ask_directly() == {"failure": Failure.POLICY}
    (federation.local("A") / "fedconformal.toml").unlink()
    assert ask_directly() == {"report": reports()[0].to_json(indent=None)}


def test_a_site_loads_no_mathematics_before_it_answers():
    code = (
        "import sys; from fedconformal.nvflare import ConformalExecutor;"
        " ConformalExecutor();ours = 'fedconformal', 'scipy',"
        " 'pydantic';print(*sorted(name for name in sys.modules if"
        " name.startswith(ours)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [
        "fedconformal",
        "fedconformal._extras",
        "fedconformal._version",
        "fedconformal.nvflare",
        "fedconformal.nvflare._executor",
    ]
