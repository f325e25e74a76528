"""Jobs: the model that travels, rounds that are resumed, who must be there, and what a
job leaves.
"""

import json
import logging

import numpy as np
import pytest

import fedconformal as fc
from fedconformal import rounds

pytest.importorskip("nvflare", reason="the extra [nvflare] is not installed")

from flare_engine import JOB, LocalFlare, Scores
from nvflare.apis.event_type import EventType
from nvflare.app_common.abstract.fl_model import FLModel
from nvflare.app_common.abstract.model import make_model_learnable
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from nvflare.app_common.utils.fl_model_utils import FLModelUtils
from nvflare.app_common.widgets.metrics_artifact_writer import MetricsArtifactWriter
from nvflare.app_common.widgets.streaming import AnalyticsReceiver
from nvflare.recipe import PocEnv
from nvflare.recipe.run import Run
from nvflare.recipe.spec import ExecEnv

from fedconformal.nvflare import (
    ConformalController,
    ConformalRecipe,
    add_conformal,
    calibrate,
    read_calibration,
)
from fedconformal.protocol import model_digest

DATA = {name: np.random.default_rng(i).random(50) for i, name in enumerate("ABC")}
PLAN = fc.plan(n_points=dict.fromkeys(DATA, 50), confidence_level=0.8)
EXPECTED = fc.calibrate(PLAN, [fc.report(PLAN, DATA[site], site=site) for site in DATA])
MODEL = {
    "weights": np.arange(6.0).reshape(2, 3),
    "nested": {"bias": [1, 2.5]},
    "name": "m",
    "raw": b"\x00",
}
RETRAINED = {**MODEL, "weights": np.nextafter(MODEL["weights"], 9)}
ARRAYS = {"weights": MODEL["weights"], "bias": np.float32([0.5])}


@pytest.fixture
def federation(tmp_path):
    return LocalFlare(tmp_path, {site: Scores(scores) for site, scores in DATA.items()})


def train(federation, model):
    """Leave a model as an earlier workflow of the same job does."""
    learnable = make_model_learnable(model, {})
    federation.fl_ctx.set_prop(
        AppConstants.GLOBAL_MODEL, learnable, private=True, sticky=False
    )


def digests_sent(federation):
    return {model_digest(data["model"]) for _, data in federation.sent}


# -- the model -------------------------------------------------------------------------


def test_the_model_that_the_training_left_travels_with_the_plan(federation):
    train(federation, MODEL)
    plan = fc.plan(
        n_points=dict.fromkeys(DATA, 50), confidence_level=0.8, terms={"model": MODEL}
    )
    assert federation.run(ConformalController(plan)) == []
    assert digests_sent(federation) == {plan.terms.model}
    train(federation, RETRAINED)
    (panic,) = federation.run(
        ConformalController(plan, reports=str(federation.home / "other"))
    )
    assert (
        f"the plan names the model {plan.terms.model}, and this job has"
        f" {model_digest(RETRAINED)}" in panic
    )
    federation.fl_ctx.set_prop(
        AppConstants.GLOBAL_MODEL, None, private=True, sticky=False
    )
    (panic,) = federation.run(
        ConformalController(plan, reports=str(federation.home / "third"))
    )
    assert "and none travels with it" in panic
    assert len(federation.sent) == 3


def test_a_round_without_a_model_is_told_in_the_log(federation, caplog):
    assert federation.run(ConformalController(PLAN)) == []
    assert "no model travels with the plan: the sites must have it" in caplog.text
    caplog.clear()
    assert (
        federation.run(
            ConformalController(PLAN, model=MODEL, reports=str(federation.home / "new"))
        )
        == []
    )
    assert "no model" not in caplog.text


def test_a_job_has_one_round():
    recipe = ConformalRecipe(PLAN)
    with pytest.raises(ValueError, match="the job has a calibration round already"):
        add_conformal(recipe, fc.plan(n_sites=3, confidence_level=0.7))


def test_or_comes_from_a_persistor(federation):
    class Persistor:
        def load(self, fl_ctx):
            return make_model_learnable(MODEL, {})

    federation.get_component = {"persistor": Persistor()}.get
    assert federation.run(ConformalController(PLAN, persistor_id="persistor")) == []
    assert digests_sent(federation) == {model_digest(MODEL)}


def test_or_with_the_job_whatever_was_trained(federation):
    train(federation, RETRAINED)
    assert federation.run(federation.deploy(ConformalRecipe(PLAN, model=MODEL))) == []
    assert digests_sent(federation) == {model_digest(MODEL)}


# -- rounds that are resumed -----------------------------------------------------------


def test_another_job_goes_on_from_the_kept_reports_and_asks_no_site_twice(
    federation, tmp_path
):
    options = {"reports": str(tmp_path / "kept")}
    federation.abort_after = 2
    (panic,) = federation.run(ConformalController(PLAN, **options))
    assert "aborted before every site had answered" in panic
    assert [name for name, _ in federation.sent] == ["C", "B"]
    federation.abort_after = None
    assert federation.run(ConformalController(PLAN, **options)) == []
    assert [name for name, _ in federation.sent] == ["C", "B", "A"]
    assert read_calibration(tmp_path / "server").to_json() == EXPECTED.to_json()
    assert (
        federation.run(ConformalController(PLAN, **options)) == []
    )  # nobody is asked any more
    assert len(federation.sent) == 3


@pytest.mark.parametrize(
    ("model", "later"),
    [(MODEL, {}), (MODEL, {"model": MODEL}), (ARRAYS, {})],
    ids=["kept", "given", "kept arrays"],
)
def test_a_resumed_round_asks_those_who_are_missing_with_the_model_that_was_kept(
    model, later, federation, tmp_path, caplog
):
    train(federation, model)
    options = {"reports": str(tmp_path / "kept")}
    federation.abort_after = 2
    assert len(federation.run(ConformalController(PLAN, **options))) == 1
    train(federation, RETRAINED)  # the same job once more: it differs in the last bit
    federation.abort_after = None
    assert (
        federation.run(federation.deploy(ConformalRecipe(PLAN, **options, **later)))
        == []
    )
    assert [name for name, _ in federation.sent] == ["C", "B", "A"]
    assert digests_sent(federation) == {model_digest(model)}
    told = "the round is resumed with the model in" in caplog.text
    assert told == (not later)
    assert read_calibration(tmp_path / "server").to_json() == EXPECTED.to_json()


def test_a_controller_of_one_s_own_resumes_with_the_kept_model_too(
    federation, tmp_path
):
    controller = ConformalController(PLAN)
    controller.set_communicator(federation)
    for model in (MODEL, None):
        (tmp_path / "kept" / "complete").unlink(missing_ok=True)
        for file in (tmp_path / "kept").glob("report-A-*"):
            file.unlink()
        options = {"model": model, "reports": tmp_path / "kept"}
        assert calibrate(controller, PLAN, federation.fl_ctx, **options) == EXPECTED
    assert [name for name, _ in federation.sent] == ["C", "B", "A", "A"]
    assert digests_sent(federation) == {model_digest(MODEL)}


def test_a_given_model_is_never_replaced_by_another(federation, tmp_path):
    options = {"reports": str(tmp_path / "kept")}
    assert federation.run(ConformalController(PLAN, model=MODEL, **options)) == []
    (panic,) = federation.run(ConformalController(PLAN, model=RETRAINED, **options))
    assert "reports must be the folder of this model" in panic


# -- who is there ----------------------------------------------------------------------


def test_a_round_with_too_few_sites_is_refused_unless_it_is_told_otherwise(
    federation, caplog
):
    caplog.set_level(logging.INFO)
    plan = fc.plan(n_sites=["A", "B", "C", "D", "E", "F"], confidence_level=0.8)
    (panic,) = federation.run(ConformalController(plan))
    assert (
        "no calibration: at least 6 sites must be there, got 3 of 6 (missing: 'D', 'E',"
        " 'F')" in panic
    )
    assert federation.sent == []
    (results,) = (federation.home / "server").glob(JOB)
    assert not (results / "calibration.json").exists()
    assert federation.run(ConformalController(plan, min_sites=3)) == []
    assert read_calibration(results).missing == ("D", "E", "F")
    assert "sites that are there: 3 of 6 (missing: 'D', 'E', 'F')" in caplog.text


@pytest.mark.parametrize(
    ("plan", "options", "expected"),
    [
        (PLAN, {}, 1),
        (fc.plan(n_sites=6, confidence_level=0.8), {}, 6),
        (fc.plan(promise="new-site"), {}, 9),
        (PLAN, {"min_sites": 2}, 2),
        (PLAN, {"min_clients": 1, "min_sites": 2}, 1),
    ],
)
def test_by_default_a_job_starts_with_as_many_sites_as_its_plan_needs(
    plan, options, expected, tmp_path
):
    ConformalRecipe(plan, name="job", **options).export(str(tmp_path))
    assert (
        json.loads((tmp_path / "job" / "meta.json").read_text())["min_clients"]
        == expected
    )


# -- what a job leaves -----------------------------------------------------------------


class Tracker(AnalyticsReceiver):
    """One of FLARE's receivers of metrics."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def initialize(self, fl_ctx):
        pass

    def save(self, fl_ctx, shareable, record_origin):
        data = shareable["DXO"]["data"]
        self.found[data["track_key"]] = data["track_value"]

    def finalize(self, fl_ctx):
        pass


@pytest.mark.parametrize("levels", [0.8, [0.8, 0.9]])
@pytest.mark.parametrize(
    "packed",
    [lambda model: model, FLModelUtils.to_shareable],
    ids=["model", "shareable"],
)
def test_figures_of_the_round_are_in_the_summary_beside_those_of_the_training(
    levels, packed, federation
):
    tracker = Tracker()
    plan = fc.plan(n_points=dict.fromkeys(DATA, 50), confidence_level=levels)
    controller = ConformalController(plan)
    federation.handlers = [MetricsArtifactWriter(), tracker, controller]
    federation.fire_event(EventType.START_RUN, federation.fl_ctx)
    trained = packed(FLModel(metrics={"accuracy": 0.5}, current_round=4))
    federation.fl_ctx.set_prop(
        AppConstants.AGGREGATION_RESULT, trained, private=True, sticky=False
    )
    federation.fire_event(AppEventType.AFTER_AGGREGATION, federation.fl_ctx)
    assert federation.run(controller) == []
    federation.fire_event(EventType.END_RUN, federation.fl_ctx)
    (file,) = federation.home.rglob("metrics_summary.json")
    summary = json.loads(file.read_text())
    found = {
        metric["name"]: metric["value"]
        for metric in summary["final_aggregated_metrics"]
    }
    calibration = read_calibration(federation.home / "server")
    figures = {"conformal_sites": 3}
    for level in plan.confidence_levels:
        suffix = "" if levels == 0.8 else f"_{float(level):g}"
        figures[f"conformal_threshold{suffix}"] = calibration[level].threshold
        figures[f"conformal_mean_coverage{suffix}"] = calibration[level].law.mean()
    assert found == {"accuracy": 0.5, **figures}
    assert summary["final_round"] == 4
    assert tracker.found == figures


def test_an_infinite_threshold_is_in_the_summary(federation):
    federation.sites = {site: Scores(scores[:4]) for site, scores in DATA.items()}
    controller = ConformalController(
        fc.plan(n_sites=list(DATA), confidence_level=0.99), min_sites=3
    )
    federation.handlers = [MetricsArtifactWriter(), controller]
    federation.fire_event(EventType.START_RUN, federation.fl_ctx)
    assert federation.run(controller) == []
    federation.fire_event(EventType.END_RUN, federation.fl_ctx)
    assert np.isinf(read_calibration(federation.home / "server").threshold)
    (file,) = federation.home.rglob("metrics_summary.json")
    found = json.loads(file.read_text())["final_aggregated_metrics"]
    assert {"name": "conformal_threshold_is_infinite", "value": True} in found


class Environment(ExecEnv):
    """An environment that deletes its workspace when it is stopped, as POC mode
    does.
    """

    def __init__(self, folder):
        super().__init__()
        self.folder, self.status, self.stopped = folder, "FINISHED:COMPLETED", []

    def deploy(self, job):
        return "job"

    def get_job_status(self, job_id):
        return self.status

    abort_job = deploy

    def get_job_result(self, job_id, timeout=0.0):
        return str(self.folder)

    def stop(self, clean_up=False):
        self.stopped.append(clean_up)
        if clean_up and self.folder.exists():
            self.folder.rename(self.folder.with_name("gone"))


def test_the_calibration_of_a_run_is_read_and_kept_before_flare_deletes_it(
    federation, tmp_path
):
    assert federation.run(ConformalController(PLAN)) == []
    environment = Environment(tmp_path / "server")
    assert (
        read_calibration(Run(environment, "job"), keep=tmp_path / "results") == EXPECTED
    )
    assert not environment.folder.exists()
    (kept,) = (tmp_path / "results").iterdir()
    assert fc.Calibration.read(kept / "calibration.json") == EXPECTED
    reports, refused = rounds.Folder(kept / "reports", PLAN).read()
    assert (len(reports), refused) == (3, [])
    assert {path.name for path in kept.iterdir()} == {"calibration.json", "reports"}


def test_every_run_is_kept_in_a_new_folder_that_the_log_names(
    federation, tmp_path, caplog
):
    caplog.set_level(logging.INFO)
    assert federation.run(ConformalController(PLAN)) == []
    (tmp_path / "link").symlink_to(tmp_path / "nothing there")
    for keep in ("results", "results", "link"):
        read_calibration(tmp_path / "server", keep=tmp_path / keep)
    kept = [*(tmp_path / "results").iterdir(), *(tmp_path / "nothing there").iterdir()]
    assert len(kept) == 3
    for folder in kept:
        assert fc.Calibration.read(folder / "calibration.json") == EXPECTED
        assert f"calibration and reports are kept in {folder}\n" in caplog.text


def test_a_folder_that_cannot_be_made_costs_no_result(federation, tmp_path):
    assert federation.run(ConformalController(PLAN)) == []
    environment = Environment(tmp_path / "server")
    (tmp_path / "file").touch()
    with pytest.raises(
        ValueError,
        match=rf"keep must be a folder, got .*; the results are in {tmp_path}",
    ):
        read_calibration(Run(environment, "job"), keep=tmp_path / "file")
    assert environment.stopped == [False, False]
    assert read_calibration(environment.folder) == EXPECTED


def test_a_result_that_flare_has_deleted_is_told(federation, tmp_path):
    assert federation.run(ConformalController(PLAN)) == []
    run = Run(Environment(tmp_path / "server"), "job")
    run.get_result()
    with pytest.raises(
        ValueError, match=r"has deleted it: call read_calibration\(run\) in place of"
    ):
        read_calibration(run)


def test_a_job_without_a_calibration_says_why_and_keeps_what_there_is_to_look_at(
    federation, tmp_path
):
    environment = Environment(tmp_path / "server")
    environment.status = "FINISHED:EXECUTION_EXCEPTION"
    words = "the job ended with the status FINISHED:EXECUTION_EXCEPTION: "
    with pytest.raises(
        ValueError, match=rf"^{words}no calibration\.json, and no reason why \(its"
    ):
        read_calibration(Run(environment, "job"))
    (panic,) = federation.run(ConformalController(PLAN, min_sites=4))
    assert panic.startswith(
        "no calibration: at least 4 sites must be there, got 3 of 3"
    )
    with pytest.raises(ValueError, match=f"^{words}{panic}"):
        read_calibration(Run(environment, "job"))
    assert environment.stopped == [False] * 4
    assert environment.folder.exists()


def test_an_early_result_that_cannot_be_fetched_stops_the_federation(
    tmp_path, monkeypatch
):
    class Poc(Environment, PocEnv):
        pass

    def fail(run, folder):
        raise ConnectionError("no session")

    monkeypatch.setattr("fedconformal.nvflare._recipe._fetch_early", fail)
    environment = Poc(tmp_path)
    with pytest.raises(ConnectionError, match="no session"):
        read_calibration(Run(environment, "job"))
    assert environment.stopped == [False]


# -- errors at the server --------------------------------------------------------------


def test_a_report_that_cannot_be_kept_ends_the_job_and_the_round_can_be_resumed(
    federation, tmp_path, monkeypatch
):
    keep = rounds.Folder.keep

    def fill(self, node, name, report):
        if name == "B":
            raise OSError(28, "No space left on device")
        keep(self, node, name, report)

    options = {"reports": str(tmp_path / "kept")}
    with monkeypatch.context() as full:
        full.setattr(rounds.Folder, "keep", fill)
        (panic,) = federation.run(ConformalController(PLAN, **options))
    assert panic == "no calibration: [Errno 28] No space left on device"
    assert not list((tmp_path / "server").rglob("calibration.json"))
    assert not (tmp_path / "kept" / "complete").exists()
    assert federation.run(ConformalController(PLAN, **options)) == []
    assert [name for name, _ in federation.sent] == ["C", "B", "B", "A"]
    assert read_calibration(tmp_path / "server") == EXPECTED


def test_an_answer_after_the_round_changes_nothing(federation, tmp_path, caplog):
    assert federation.run(ConformalController(PLAN)) == []
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    federation.late()
    assert "A answered when the round was over: left out" in caplog.text
    assert {
        file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()
    } == before


# -- what FLARE deletes ----------------------------------------------------------------


def wiped(mode, home, monkeypatch):
    """A federation below a folder that FLARE empties, which is returned too."""
    if mode == "simulator":
        return (
            LocalFlare(home, {"A": Scores(DATA["A"])}, job="simulate_job"),
            "empties before every run",
        )
    monkeypatch.setenv("NVFLARE_POC_WORKSPACE", str(home))
    return LocalFlare(home, {"A": Scores(DATA["A"])}), "deletes after a run"


@pytest.mark.parametrize("mode", ["simulator", "POC"])
def test_ledgers_and_reports_where_flare_deletes_them_are_refused(
    mode, tmp_path, monkeypatch
):
    home = tmp_path / "workspace"
    federation, words = wiped(mode, home, monkeypatch)
    plan = fc.plan(
        n_points={"A": 50},
        confidence_level=0.8,
        privacy=fc.Privacy(8.0, fc.Bins.uniform(0, 1, 20)),
    )
    local = federation.local("A")
    for path in ("book", str(tmp_path / "{site}")):
        name = path.replace("{site}", "A")
        fc.Ledger.create(local / name).set_budget("mine", 8.0)
        (local / "fedconformal.toml").write_text(
            f'ledger = "{path}"\ndataset = "mine"\n'
        )
        reports = str(tmp_path / f"reports of {local / name}".replace("/", "-"))
        panics = federation.run(
            ConformalController(plan, reports=str(tmp_path / reports))
        )
        assert bool(panics) == (path == "book")
    assert (
        f"ledger must be outside of {home}, which"
        in (home / "A" / "fedconformal-log").read_text()
    )
    assert words in (home / "A" / "fedconformal-log").read_text()
    assert fc.Ledger(tmp_path / "A").spent("mine") == 8
    key = fc.SigningKey.new()
    (local / "policy.toml").write_text(f'sum_with = ["{key.public_key}"]\n')
    (local / "own.key").touch(mode=0o600)
    (local / "own.key").write_bytes(key.to_pem())
    (local / "fedconformal.toml").write_text(
        'policy = "policy.toml"\nsigning_key = "own.key"\n'
    )
    federation.run(
        ConformalController(fc.plan(n_points={"A": 50}, confidence_level=0.8))
    )
    assert (
        f"sum_record must be outside of {home}"
        in (home / "A" / "fedconformal-log").read_text()
    )
    (panic,) = federation.run(ConformalController(plan, reports=str(home / "kept")))
    assert f"reports must be outside of {home}" in panic
    assert words in panic
