"""How long whole runs took: the clock on the wall, where nothing had been trained before."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedconformal._outputs import write_text
from fedconformal._text import count, listed
from fedconformal.experiments._models import Model
from fedconformal.experiments._store import Rows, Store


def _path(store: Store) -> Path:
    return store.results_path("runs", "json")


def _write(store: Store, runs: Rows) -> None:
    _path(store).parent.mkdir(parents=True, exist_ok=True)
    write_text(_path(store), json.dumps(runs, indent=2) + "\n", force=True)


def is_fresh(store: Store) -> bool:
    """Whether no fit has been made in a folder.

    Parameters
    ----------
    store : Store
        The folder.

    Returns
    -------
    bool

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fedconformal.experiments import Ridge, Store, is_fresh, poisson, run
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(Path(folder))
    ...     print(is_fresh(store))
    ...     rows = run([poisson(100, 200, 100)], [Ridge()], store=store, n_splits=1, jobs=1)
    ...     print(is_fresh(store))
    True
    False
    """
    return _n_fits(store) == 0


def _n_fits(store: Store) -> int:
    return sum(1 for _ in (store.folder / "fits").glob("*.npz"))


def record_run(store: Store, models: Sequence[Model], *, cores: int, seconds: float) -> None:
    """Keep how long a run took that had to make all its fits.

    Parameters
    ----------
    store : Store
        The folder.
    models : sequence of Model
        What was trained.
    cores : int
        Of the machine.
    seconds : float
        By the clock on the wall.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from fedconformal.experiments import Ridge, Store, record_run
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(Path(folder))
    ...     record_run(store, [Ridge()], cores=2, seconds=61.2)
    ...     print(*store.results_path("runs", "json").read_text().split())
    [ { "models": [ "ridge" ], "fits": 0, "cores": 2, "seconds": 61 } ]
    """
    names = [model.name for model in models]
    _write(store, [{"models": names, "fits": _n_fits(store), "cores": cores, "seconds": round(seconds)}])


def recorded_runs(store: Store) -> Rows:
    """Return the run that was kept, if one was; without one, an empty list is kept.

    Parameters
    ----------
    store : Store
        The folder.

    Returns
    -------
    list of dict
        The models, the cores and the seconds.
    """
    if not _path(store).exists():
        _write(store, [])
    runs: Rows = json.loads(_path(store).read_text(encoding="utf-8"))
    return runs


def run_sentences(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Say how long runs took.

    Parameters
    ----------
    runs : list of dict
        As `recorded_runs` gives them.

    Returns
    -------
    list of str
        A sentence for each.
    """
    return [
        f"A whole run with {listed(run['models'])} that began with an empty folder, "
        f"{count(run['fits'], 'fit')}, tables and figures together, took {run['seconds'] / 60:.0f} minutes "
        f"by the clock on {count(run['cores'], 'core')}."
        for run in runs
    ]
