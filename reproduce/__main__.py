"""Command line: ``python -m reproduce NAME... | all [--quick]``."""

import argparse
import json
import os
import time
from importlib.util import find_spec
from pathlib import Path

from reproduce import authors
from reproduce.data import CQR, FOLDER
from reproduce.models import MODELS
from reproduce.protocol import Settings
from reproduce.studies import STUDIES


def main(arguments: list[str] | None = None) -> None:
    """Run the studies that are named."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce", description="Reproduce figures of the paper."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="studies, or all; none lists them"
    )
    parser.add_argument(
        "--quick", action="store_true", help="small models and few splits"
    )
    parser.add_argument(
        "--out", type=Path, help="folder for fits, tables and figures (reproduction)"
    )
    parser.add_argument(
        "--download", action="store_true", help="fetch data sets that are not here"
    )
    parser.add_argument(
        "--models",
        nargs="+",
        choices=MODELS,
        default=["ridge", "forest"],
        metavar="MODEL",
    )
    parser.add_argument("--splits", type=int, help="random splits (20; 3 if quick)")
    parser.add_argument(
        "--jobs", type=int, default=-1, help="processes (one for each core)"
    )
    options = parser.parse_args(arguments)
    if not options.names:
        for name, study in STUDIES.items():
            print(f"{name:15} {study.place:17} {study.title}")
        return
    for name in options.names:
        if name not in (*STUDIES, "all"):
            parser.error(f"no study {name!r}; choose from {', '.join(STUDIES)} and all")
    if "network" in options.models and find_spec("torch") is None:
        parser.error("the network needs PyTorch: pip install torch")
    settings = Settings(
        out=options.out
        or Path("reproduction/quick" if options.quick else "reproduction"),
        quick=options.quick,
        download=options.download,
        jobs=options.jobs,
        n_splits=options.splits or (3 if options.quick else 20),
        models=options.models,
    )
    try:
        run(options.names, settings)
    except FileNotFoundError as error:
        parser.error(str(error))


def run(names: list[str], settings: Settings) -> None:
    """Run studies and save a table and a figure of each; ``all`` are those whose data
    are here.
    """
    start, fresh = time.monotonic(), not (settings.out / "cache").exists()
    for name in STUDIES if "all" in names else names:
        study, begin = STUDIES[name], time.monotonic()
        missing = study.missing(settings)
        if missing and "all" in names:
            print(f"{name}: left out, needs {', '.join(missing)}")
            continue
        rows = study.compute(settings)
        table = settings.out / "results" / f"{name}.csv"
        table.parent.mkdir(parents=True, exist_ok=True)
        rows.to_csv(table, index=False)
        for kind in ("png", "pdf"):
            study.save_figure(settings.out / "figures" / f"{name}.{kind}", rows)
        if name == "authors":
            print(authors.side_by_side(rows).to_string(index=False, na_rep=""))
            if rows["published_length"].isna().all():
                print(
                    f"Published means are over {authors.N_SEEDS} runs: leave out"
                    " --quick to compare."
                )
        print(
            f"{name}: {study.title} ({study.place}), {time.monotonic() - begin:.0f} s",
            flush=True,
        )
    seconds, cores = round(time.monotonic() - start), os.cpu_count()
    if fresh and "all" in names:
        record = {
            "models": settings.models,
            "splits": settings.n_splits,
            "cores": cores,
            "seconds": seconds,
        }
        (settings.out / "results" / "runs.json").write_text(
            json.dumps([record], indent=2) + "\n"
        )
    if "all" in names and not settings.download:
        print(
            f"Data sets that were left out: use --download ({CQR}) or {FOLDER}, a"
            " folder that has them."
        )
    print(f"{settings.out}: {seconds} s, {cores} cores")


if __name__ == "__main__":
    main()
