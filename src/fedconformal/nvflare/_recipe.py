"""FLARE's recipes: a round after the training, or a job of the round alone."""

from pathlib import Path
from typing import Any

from nvflare.job_config.api import FedJob
from nvflare.recipe.spec import Recipe

from fedconformal.documents import Calibration, Plan
from fedconformal.nvflare._controller import CALIBRATION, ConformalController
from fedconformal.nvflare._executor import ConformalExecutor
from fedconformal.nvflare._messages import TASK


def add_conformal(
    recipe: Recipe, plan: Plan, executor: ConformalExecutor | None = None, **options: Any
) -> None:
    """Add a calibration round to a recipe, after everything that is in it already.

    Parameters
    ----------
    recipe : Recipe
        Any of FLARE's recipes, for example FedAvgRecipe; the model that it trains travels with the plan.
    plan : Plan
        The plan to be answered.
    executor : ConformalExecutor, optional
        A subclass with ``scores`` of the job's own, with which the sites answer. Without one each site's own
        configuration names its function.
    **options : timeout, persistor_id, on_refused, reports, sites, check
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
    recipe._job.to_server(ConformalController(plan, **options), id=TASK)
    recipe._add_to_client_apps(executor or ConformalExecutor())


class ConformalRecipe(Recipe):
    """Job of one calibration round, for sites that have the model already.

    Parameters
    ----------
    plan : Plan
        The plan to be answered.
    executor : ConformalExecutor, optional
        As for `add_conformal`.
    name : str
        The name of the job.
    min_clients : int
        Number of sites that must be connected for the job to start. If fewer are left while it runs, FLARE
        ends the job: choose it smaller than the number of sites.
    **options : timeout, on_refused, reports, sites, check
        As for `ConformalController`.

    Examples
    --------
    >>> import fedconformal as fc
    >>> recipe = ConformalRecipe(fc.plan(n_sites=3, n_points=80), name="calibrate", min_clients=2)
    >>> recipe.name
    'calibrate'
    """

    def __init__(
        self,
        plan: Plan,
        executor: ConformalExecutor | None = None,
        *,
        name: str = "conformal",
        min_clients: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(FedJob(name=name, min_clients=min_clients))
        add_conformal(self, plan, executor, **options)


def read_calibration(result: Any) -> Calibration:
    """Read the Calibration among the results of a job.

    Parameters
    ----------
    result : str or Path
        The folder that FLARE's ``run.get_result()`` gives, or that a job's results were downloaded to; at the
        server, the folder of the job.

    Returns
    -------
    Calibration
        The result of the round.

    Examples
    --------
    A folder of results, here with nothing else in it:

    >>> import tempfile
    >>> from pathlib import Path
    >>> import fedconformal as fc
    >>> calibration = fc.conformalize({"north": range(80), "south": range(90)}, confidence_level=0.9)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "calibration.json").write_text(calibration.to_json())
    ...     read_calibration(folder) == calibration
    True
    """
    files = list(Path(result).rglob(CALIBRATION))
    if len(files) != 1:
        raise ValueError(f"result must be a folder with one {CALIBRATION} in it, {result} has {len(files)}")
    return Calibration.read(files[0])
