"""``fedconformal reproduce``."""

import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedconformal.cli._progress import fit_counter
from fedconformal.cli._show import say, table

if TYPE_CHECKING:
    from fedconformal.experiments import Model, Settings, Study

_QUICK_SPLITS, _FULL_SPLITS = 3, 20
_MODULES = ("joblib", "matplotlib", "polars", "pooch", "quantile_forest", "sklearn")
_ALL = "all"


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Studies to run, or all; none lists them.")
    ] = None,
    quick: Annotated[bool, typer.Option(help="Small models and few splits: minutes.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for fits, tables, figures and the page.")] = Path(
        "reproduction"
    ),
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data sets, before FEDCONFORMAL_DATA.")
    ] = None,
    download: Annotated[bool, typer.Option(help="Fetch data sets from where they are published.")] = False,
    csv: Annotated[Path | None, typer.Option(help="A table of yours instead; needs --target.")] = None,
    target: Annotated[str | None, typer.Option(help="With --csv: the column with the truth.")] = None,
    models: Annotated[str, typer.Option(help="Of ridge, forest and network.")] = "ridge,forest",
    network_on: Annotated[
        str | None, typer.Option(help="Data sets to train the network on, which is slow; all if left out.")
    ] = None,
    splits: Annotated[int | None, typer.Option(help="Random splits: 20, or 3 if quick.")] = None,
    jobs: Annotated[int, typer.Option(help="Processes; -1: one for each core.")] = -1,
    cached: Annotated[
        bool, typer.Option(help="Train nothing: leave out what has not all of its fits in the folder.")
    ] = False,
) -> None:
    """Run the paper's experiments and case studies: every figure, its numbers, one page that holds all."""
    from fedconformal._extras import need

    for module in _MODULES:
        need(module, extra="experiments")
    from fedconformal import experiments

    if data is not None and not data.is_dir():
        raise ValueError(f"--data {data}: no such folder")
    own = _own_study(csv, target, names or [])
    if not names and not own:
        _list()
        return
    settings = experiments.Settings(
        experiments.Store(out),
        quick=quick,
        folder=data,
        download=download,
        jobs=_jobs(jobs),
        n_splits=_splits(splits, quick=quick),
        models=_models(models, trains=not cached),
        network_on=_network_on(network_on),
        cached=cached,
    )
    start, fresh = time.monotonic(), experiments.is_fresh(settings.store)
    studies = own or _chosen(names or [], settings)
    for name, study in studies.items():
        _run(name, study, settings)
    if fresh and _ALL in (names or []) and not (quick or cached):
        seconds = time.monotonic() - start
        experiments.record_run(settings.store, settings.models, cores=os.cpu_count() or 1, seconds=seconds)
    _write_pages(settings, studies, {**experiments.STUDIES, **own})
    say(f"{time.monotonic() - start:.0f} s in all, {os.cpu_count()} cores")
    _say_what_is_left_out(studies, settings)


def _list() -> None:
    from fedconformal.experiments import STUDIES

    rows = [[name, study.title, study.figure] for name, study in STUDIES.items()]
    table(["name", "what it shows", "in the paper"], rows)
    print(f"fedconformal reproduce NAME, or {_ALL}; --quick for a look within minutes.")


# -- what was asked for ------------------------------------------------------------------------------------


def _own_study(csv: Path | None, target: str | None, names: list[str]) -> "dict[str, Study]":
    """The study of somebody's own table, if there is one."""
    from fedconformal import experiments

    if csv is None:
        if target is not None:
            raise ValueError("--target needs --csv")
        return {}
    if target is None:
        raise ValueError("--csv needs --target, the column to predict")
    if names:
        raise ValueError(f"--csv is a study of its own and goes without a name, got {names[0]!r}")
    dataset = experiments.from_table(csv, target)
    if dataset.name in experiments.STUDIES:
        raise ValueError(
            f"--csv {csv}: {dataset.name!r} is the name of a study of the paper; rename the file"
        )
    return {dataset.name: experiments.study_of(dataset)}


def _chosen(names: list[str], settings: "Settings") -> "dict[str, Study]":
    """The studies of these names; all are those whose data is here."""
    from fedconformal.experiments import STUDIES

    if _ALL in names:
        lacking = {name: study.lacks(settings) for name, study in STUDIES.items()}
        for name, words in lacking.items():
            if words is not None and STUDIES[name].dataset is None:
                say(f"left out: {words}")
        return {name: study for name, study in STUDIES.items() if lacking[name] is None}
    for name in names:
        if name not in STUDIES:
            raise ValueError(f"no study {name!r}; there are {', '.join(STUDIES)}, and {_ALL}")
    return {name: STUDIES[name] for name in names}


def _models(names: str, *, trains: bool) -> "list[Model]":
    from fedconformal._extras import need
    from fedconformal.experiments import MODELS, Network

    chosen = []
    for name in dict.fromkeys(part.strip() for part in names.split(",")):
        if name not in MODELS:
            raise ValueError(f"--models: no model {name!r}; there are {', '.join(MODELS)}")
        chosen.append(MODELS[name]())
    if trains and any(isinstance(model, Network) for model in chosen):
        need("torch", extra="nn")
    return chosen


def _network_on(names: str | None) -> list[str] | None:
    from fedconformal.experiments import DATA_SETS

    if names is None:
        return None
    chosen = [name.strip() for name in names.split(",")]
    for name in chosen:
        if name not in DATA_SETS:
            raise ValueError(f"--network-on: no data set {name!r}; there are {', '.join(DATA_SETS)}")
    return chosen


def _splits(splits: int | None, *, quick: bool) -> int:
    from fedconformal._validation import integer

    if splits is None:
        return _QUICK_SPLITS if quick else _FULL_SPLITS
    return integer("--splits", splits, low=1)


def _jobs(jobs: int) -> int:
    if jobs == 0 or jobs < -1:
        raise ValueError(f"--jobs must be -1 or at least 1, got {jobs}")
    return jobs


# -- running it, and saying so -----------------------------------------------------------------------------


def _run(name: str, study: "Study", settings: "Settings") -> None:
    from fedconformal import experiments

    start = time.monotonic()
    with fit_counter(name) as progress:
        rows = study.compute(replace(settings, progress=progress))
        if not rows:
            say(f"{name}: left out, for its fits are not all in {settings.store.folder}")
            return
        settings.store.save_results(name, [{**row, "quick": settings.quick} for row in rows])
        experiments.save_figure(settings.store, name, study.draw(rows), rows)
    if study.table is not None:
        heads, lines = study.table(rows)
        table(list(heads), lines)
    say(f"{name}: {study.title} ({study.figure}), {time.monotonic() - start:.0f} s")


def _write_pages(settings: "Settings", run: "Mapping[str, Study]", studies: "Mapping[str, Study]") -> None:
    """The page of all studies, and of the other pages those that what was run belongs on."""
    from fedconformal import experiments

    store, paths = settings.store, []
    if any(study.summarised for study in run.values()):
        paths.append(experiments.save_summary(store, studies))
    if not experiments.CASES.isdisjoint(run):
        paths.append(experiments.save_cases(store))
    paths += [store.folder / "figures", experiments.save_page(store, studies)]
    for path in paths:
        if path is not None:
            print(path)


def _say_what_is_left_out(studies: "Mapping[str, Study]", settings: "Settings") -> None:
    from fedconformal.experiments import DATA_ADDRESS, DATA_FOLDER, DATA_SETS, Network, available

    here = DATA_SETS if settings.download else available(folder=settings.folder)
    missing = [name for name in DATA_SETS if name not in here]
    if not {"coverage", "private"}.isdisjoint(studies) and missing:
        say(
            f"left out, for their files are not here: {', '.join(missing)}; --download fetches them from "
            f"{DATA_ADDRESS}, --data or {DATA_FOLDER} names a folder that has them"
        )
    if "coverage" in studies and not any(isinstance(model, Network) for model in settings.models):
        say("left out: the network (pip install 'fedconformal[nn]', then --models ridge,forest,network)")
