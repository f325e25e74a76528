"""The paper's experiments from a terminal."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from fedconformal import experiments
from fedconformal._validation import integer
from fedconformal._extras import need
from fedconformal.cli._show import say, table
from fedconformal.experiments import STUDIES, Model, Settings, Store, Study
from fedconformal.experiments._data import ADDRESS, FOLDER, NAMES, available
from fedconformal.experiments._protocol import Progress

QUICK_SPLITS, FULL_SPLITS = 3, 20


def reproduce(
    names: list[str],
    *,
    quick: bool,
    out: Path,
    folder: Path | None,
    download: bool,
    csv: Path | None,
    target: str | None,
    models: str,
    network_on: str | None,
    splits: int | None,
    jobs: int,
) -> None:
    """Run the studies, write what they find, and say what was left out."""
    for module in ("joblib", "matplotlib", "polars", "pooch", "quantile_forest", "sklearn"):
        need(module, extra="experiments")
    if folder is not None and not folder.is_dir():
        raise ValueError(f"--data {folder}: no such folder")
    own = _own_table(csv, target, names)
    if not names and not own:
        _list()
        return
    settings = Settings(
        Store(out),
        quick=quick,
        folder=folder,
        download=download,
        jobs=_jobs(jobs),
        n_splits=_splits(splits, quick=quick),
        models=_models(models),
        network_on=_network_on(network_on),
    )
    start = time.monotonic()
    missing = [] if download or own else [name for name in NAMES if name not in available(folder=folder)]
    studies = own or _chosen(names, missing)
    for name, study in studies.items():
        _run(name, study, settings)
    _write_pages(settings, {**STUDIES, **own})
    say(f"{time.monotonic() - start:.0f} s in all, {os.cpu_count()} cores")
    _say_what_is_left_out(missing, studies, settings)


def _say_what_is_left_out(missing: list[str], studies: dict[str, Study], settings: Settings) -> None:
    if not {"coverage", "private"}.isdisjoint(studies) and missing:
        say(
            f"left out, for their files are not here: {', '.join(missing)}; --download fetches them from "
            f"{ADDRESS}, --data or {FOLDER} names a folder that has them"
        )
    if "coverage" in studies and not any(model.name == "network" for model in settings.models):
        say("left out: the network (pip install 'fedconformal[nn]', then --models ridge,forest,network)")


def _list() -> None:
    rows = [[name, study.title, study.figure] for name, study in STUDIES.items()]
    table(["name", "what it shows", "in the paper"], rows)
    print("fedconformal reproduce NAME, or all; --quick for a look within minutes.")


def _own_table(csv: Path | None, target: str | None, names: list[str]) -> dict[str, Study]:
    if csv is None:
        if target is not None:
            raise ValueError("--target needs --csv")
        return {}
    if target is None:
        raise ValueError("--csv needs --target, the column to predict")
    if names:
        raise ValueError(f"--csv is a study of its own and goes without a name, got {names[0]!r}")
    from fedconformal.experiments._studies import of_table

    dataset = experiments.from_table(csv, target)
    if dataset.name in STUDIES:
        raise ValueError(
            f"--csv {csv}: {dataset.name!r} is the name of a study of the paper; rename the file"
        )
    return {dataset.name: of_table(dataset)}


def _chosen(names: list[str], missing: list[str]) -> dict[str, Study]:
    """The studies of these names; all are those whose data is here."""
    if "all" in names:
        return {name: study for name, study in STUDIES.items() if study.dataset not in missing}
    for name in names:
        if name not in STUDIES:
            raise ValueError(f"no study {name!r}; there are {', '.join(STUDIES)}, and all")
    return {name: STUDIES[name] for name in names}


def _models(names: str) -> list[Model]:
    chosen = []
    for name in dict.fromkeys(part.strip() for part in names.split(",")):
        if name not in experiments.MODELS:
            raise ValueError(f"--models: no model {name!r}; there are {', '.join(experiments.MODELS)}")
        if name == "network":
            need("torch", extra="nn")
        chosen.append(experiments.MODELS[name]())
    return chosen


def _network_on(names: str | None) -> list[str] | None:
    if names is None:
        return None
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in NAMES:
            raise ValueError(f"--network-on: no data set {name!r}; there are {', '.join(NAMES)}")
    return chosen


def _splits(splits: int | None, *, quick: bool) -> int:
    return (QUICK_SPLITS if quick else FULL_SPLITS) if splits is None else integer("--splits", splits, low=1)


def _jobs(jobs: int) -> int:
    if jobs == 0 or jobs < -1:
        raise ValueError(f"--jobs must be -1 or at least 1, got {jobs}")
    return jobs


def _run(name: str, study: Study, settings: Settings) -> None:
    start = time.monotonic()
    with progress_bar(name) as progress:
        rows = study.compute(replace(settings, progress=progress))
        settings.store.save_results(name, rows)
        experiments.save_figure(settings.store, name, study.draw(rows))
    say(f"{name}: {study.title} ({study.figure}), {time.monotonic() - start:.0f} s")


def _write_pages(settings: Settings, studies: dict[str, Study]) -> None:
    summary = experiments.save_summary(settings.store, studies, quick=settings.quick)
    page = experiments.save_page(settings.store, studies)
    for path in (summary, settings.store.folder / "figures", page):
        if path is not None:
            print(path)


@contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """A bar that counts fits, where somebody watches; a line for every tenth of them elsewhere."""
    if not sys.stderr.isatty():
        yield _Lines(what)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
               TimeRemainingColumn())  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


class _Lines:
    def __init__(self, what: str) -> None:
        self.what, self.said = what, -1

    def __call__(self, done: int, of: int) -> None:
        tenth = 10 * done // of if of else 10
        if tenth > self.said:
            self.said = tenth
            say(f"{self.what}: {done} of {of} fits")
