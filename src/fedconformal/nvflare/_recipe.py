"""Recipes: a round after the training or a job of the round alone, and the calibration
after a run.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from nvflare.app_common.widgets.metrics_artifact_writer import MetricsArtifactWriter
from nvflare.fuel.flare_api.flare_api import new_secure_session
from nvflare.job_config.api import FedJob
from nvflare.recipe import PocEnv, ProdEnv
from nvflare.recipe.run import Run
from nvflare.recipe.spec import Recipe

from fedconformal import rounds
from fedconformal._files import write_text
from fedconformal._text import one_line
from fedconformal.documents import Calibration, Plan
from fedconformal.nvflare._controller import (
    CALIBRATION,
    CHECKED,
    FAILED,
    REPORTS,
    SITES,
    ConformalController,
    log,
)
from fedconformal.nvflare._executor import ConformalExecutor
from fedconformal.protocol import sites_needed

SUMMARY = "metrics/metrics_summary.json"
PATIENCE = 10.0
"""Seconds that FLARE gets to close a job that is over before its result is read without
it.
"""


def add_conformal(
    recipe: Recipe,
    plan: Plan,
    executor: ConformalExecutor | None = None,
    **options: Any,
) -> None:
    """Add a calibration round to a recipe, after everything that is in it already.

    Parameters
    ----------
    recipe : Recipe
        Any of FLARE's recipes, for example FedAvgRecipe; the model that it trains
        travels with the plan.
    plan : Plan
        The plan to be answered.
    executor : ConformalExecutor, optional
        A subclass with ``scores`` of the job's own, with which the sites answer.
        Without one each site's own configuration names its function, or the recipe's
        training script calls `answer`.
    **options : timeout, model, persistor_id, on_refused, reports, sites, ...
        As for `ConformalController`.

    Examples
    --------
    After the training of any recipe, here of an empty one:

    >>> import fedconformal as fc
    >>> from nvflare.job_config.api import FedJob
    >>> from nvflare.recipe.spec import Recipe
    >>> recipe = Recipe(FedJob(name="training", min_clients=2))
    >>> add_conformal(recipe, fc.plan(n_sites=3, n_points=80), timeout=60)
    """
    # FLARE's recipes take components of others as filters only; each adds itself to the
    # job as what it is.
    recipe.add_server_output_filter(ConformalController(plan, **options))
    recipe.add_client_input_filter(executor or ConformalExecutor())


class ConformalRecipe(Recipe):
    """Job of one calibration round, for sites that have the model already, or get it
    with the plan.

    Parameters
    ----------
    plan : Plan
        The plan to be answered.
    executor : ConformalExecutor, optional
        As for `add_conformal`.
    name : str
        The name of the job.
    min_clients : int, optional
        Number of sites that must be connected for the job to start; by default
        ``min_sites``, or as many as the plan needs for finite thresholds. If fewer are
        left while it runs, FLARE ends the job.
    **options : timeout, model, on_refused, reports, sites, min_sites, check
        As for `ConformalController`.

    Examples
    --------
    >>> import fedconformal as fc
    >>> recipe = ConformalRecipe(
    ...     fc.plan(n_sites=3, n_points=80), name="calibrate", min_clients=2
    ... )
    >>> recipe.name
    'calibrate'
    """

    def __init__(
        self,
        plan: Plan,
        executor: ConformalExecutor | None = None,
        *,
        name: str = "conformal",
        min_clients: int | None = None,
        **options: Any,
    ) -> None:
        fewest = min_clients or options.get("min_sites") or sites_needed(plan)
        job = FedJob(name=name, min_clients=fewest)
        job.to_server(MetricsArtifactWriter(), id="metrics_artifact_writer")
        super().__init__(job)
        add_conformal(self, plan, executor, **options)


def read_calibration(result: Any, *, keep: str | Path | None = None) -> Calibration:
    """Read the Calibration of a run, or among the results of a job.

    Of a run it waits for the end of the job, as ``run.get_result()`` does, and lets
    FLARE stop and clean up after the calibration was read. Where FLARE keeps a job open
    that is over, as it does when a site died, it does not wait for that.

    Parameters
    ----------
    result : Run, str or Path
        What ``recipe.execute(env)`` returned; or a folder that a job's results were
        downloaded to, at the server the folder of the job.
    keep : str or Path, optional
        A folder outside of what FLARE deletes. In it a new one, named by date and plan,
        gets a copy of the calibration, the reports and the check; the log names it.

    Returns
    -------
    Calibration
        The result of the round.

    Raises
    ------
    ValueError
        If there is none, with the reason and the status of the job, or FLARE has
        deleted it.

    Examples
    --------
    A folder of results, here with nothing else in it:

    >>> import tempfile
    >>> from pathlib import Path
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize(
    ...     {"north": range(80), "south": range(90)}, confidence_level=0.9
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "calibration.json").write_text(calibration.to_json())
    ...     read_calibration(folder) == calibration
    True
    """
    if not isinstance(result, Run):
        return _read_folder(Path(result), keep)
    early = tempfile.mkdtemp()
    try:
        if isinstance(result.exec_env, PocEnv | ProdEnv) and _fetch_early(
            result, Path(early)
        ):
            folder: str | None = early
        else:
            folder = result.get_result(clean_up=False)
        if folder is None or not Path(folder).exists():
            raise ValueError(
                f"FLARE has no result of the job {result.job_id}, or has deleted it:"
                " call read_calibration(run) in place of run.get_result()"
            )
        status = None if folder == early else result.get_status()
        calibration = _read_folder(Path(folder), keep, status=status)
    except BaseException:  # processes end, and files stay to be looked at
        with suppress(OSError):  # it is not empty
            Path(early).rmdir()
        result.exec_env.stop(clean_up=False)
        raise
    result.exec_env.stop(clean_up=True)
    shutil.rmtree(early)
    return calibration


def _read_folder(
    folder: Path, keep: str | Path | None, *, status: str | None = None
) -> Calibration:
    """Read the calibration below a folder of results, and copy what the round has
    written if asked to.
    """
    files = list(folder.rglob(CALIBRATION))
    if not files:
        reasons = [
            one_line(file.read_text(encoding="utf-8"), 2000)
            for file in folder.rglob(FAILED)
        ]
        ended = (
            f"the job ended with the status {status}" if status else "the job has ended"
        )
        why = "; ".join(reasons) or f"no {CALIBRATION}, and no reason why"
        raise ValueError(f"{ended}: {why} (its results and logs are in {folder})")
    if len(files) > 1:
        raise ValueError(
            f"result must be a folder with one {CALIBRATION} in it, {folder} has"
            f" {len(files)}"
        )
    calibration = Calibration.read(files[0])
    if keep is not None:
        if Path(keep).exists() and not Path(keep).is_dir():
            raise ValueError(
                f"keep must be a folder, got {keep}; the results are in {folder}"
            )
        kept = rounds.new_folder(keep, calibration.plan)
        for name in (CALIBRATION, CHECKED, REPORTS):
            source = files[0].parent / name
            if source.is_dir():
                shutil.copytree(source, kept / name)
            elif source.exists():
                shutil.copy(source, kept)
        log.info("calibration and reports are kept in %s", kept)
    return calibration


def _fetch_early(run: Run, folder: Path) -> bool:
    """Wait for the end of a job; if FLARE keeps it open when it is over, fetch what the
    round has written.

    FLARE waits up to 15 minutes for word of a site that died, and gives no result away
    meanwhile. What administrators may read at the server is there; the last that a job
    writes is the summary of its metrics.
    """
    env, job, deadline = run.exec_env, run.job_id, math.inf
    kits = [env.startup_kit_location] if isinstance(env, ProdEnv) else _find_kits(env)
    if not kits:  # deleted already
        return False
    session = new_secure_session(
        env.username, str(kits[-1]), timeout=60.0, study=env.study
    )

    def read(name: str) -> str:
        return str(session.cat_target("server", file=f"{job}/{name}"))

    try:
        while not str(session.get_job_status(job)).startswith("FINISHED"):
            if time.monotonic() > deadline:
                for name in (CALIBRATION, CHECKED):
                    if not (text := read(name)).startswith("cat: "):
                        write_text(folder / name, text, force=False)
                return True
            if deadline == math.inf and SITES in read(SUMMARY):
                deadline = time.monotonic() + PATIENCE
            time.sleep(1.0)
    finally:
        session.close()
    return False


def _find_kits(env: PocEnv) -> list[Path]:
    """Return the folders of the administrator of a federation in POC mode, the newest
    last.
    """
    return sorted(Path(env.poc_workspace).glob(f"*/prod_*/{env.username}"))
