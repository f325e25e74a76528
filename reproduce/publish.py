"""Write tables and figures into the documentation: ``python -m reproduce.publish docs
[--from FOLDER]``.

With ``--from``, the results and figures of a full run are published first. Without it,
means, tables and figures are made again from the published rows, which needs no fits.
"""

import argparse
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import fedconformal as fc
from reproduce import authors, hospitals, schools
from reproduce.data import DATA_SETS
from reproduce.methods import (
    AVERAGE_NEXT,
    CENTRALISED,
    CURVE,
    EPSILONS,
    METHODS,
    PAPER,
    PRIVATE_METHODS,
    QQ,
    SINGLE,
)
from reproduce.models import MODELS
from reproduce.protocol import FEW, MANY, PRIVATE, SETTING, Settings, summarise
from reproduce.studies import STUDIES, Study

SPLITS = "results-splits.csv.gz"
SPLIT_COLUMNS = [*SETTING, "confidence_level", "split", "n_train", "n_test", "plan",
                 "threshold", "coverage", "length", "fit_seconds"]  # fmt: skip
NO_FITS = (
    "upper-bounds",
    "heat-map",
    "curves",
    "numbers",
    "conditional",
    "bounds",
    "risk",
)
"""Studies whose figures are computed again whenever pages are written."""

SIGNS = {MANY: "m≫n", FEW: "m≪n"}

PROBLEM = Study(
    "README", "Coverage of one class", hospitals.compute, hospitals.draw_problem
)

SUMMARIES = {
    "hospitals": lambda rows: hospitals.summarise(rows).merge(_plans(rows), how="left"),
    "schools": schools.summarise,
    "authors": authors.side_by_side,
    "compensation": lambda rows: rows,
    "open-questions": lambda rows: rows,
}
"""From the rows of a study to the table that is published as results-NAME.csv."""


def _plans(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the plan of each rule for all four hospitals."""
    plans = (
        rows.loc[rows["part"] == hospitals.HERE, ["rule", "part", "plan"]]
        .dropna()
        .drop_duplicates()
    )
    return plans.assign(hospital=hospitals.ALL, truth=hospitals.ALL)


# -- estimates --


def estimate(values: pd.Series) -> tuple[float, float]:
    """Return the mean over pairs of a data set and a model, and its standard error over
    splits.

    ``values`` is indexed by data set, model and split. The models of a data set share
    its splits, so their values are added up split by split before the spread over
    splits is taken.
    """
    pairs = len(values.groupby(["dataset", "model"]))
    sums = values.groupby(["dataset", "split"]).sum().groupby("dataset")
    return (
        sums.mean().sum() / pairs,
        float(np.sqrt((sums.var() / sums.size()).sum())) / pairs,
    )


def keyed(rows: pd.DataFrame, scenario: str, method: str) -> pd.DataFrame:
    """Return the rows of a scenario and a method, indexed by data set, model and
    split.
    """
    chosen = rows[(rows["scenario"] == scenario) & (rows["method"] == method)]
    return chosen.set_index(["dataset", "model", "split"])


def length_ratio(rows: pd.DataFrame, scenario: str, method: str) -> tuple[float, float]:
    """Return the mean length over that of centralised calibration, and its standard
    error.
    """
    ours = keyed(rows, scenario, method)["length"]
    pooled = keyed(rows, scenario, CENTRALISED)["length"]
    pair = ["dataset", "model"]
    scale = pooled.groupby(pair).transform("mean")
    ratio = ours.groupby(pair).transform("mean") / scale
    # The error of a ratio of means is that of the mean of these values, whose own mean
    # is the ratio.
    return estimate(ratio + (ours - ratio * pooled) / scale)


def law_std(method: str, m: int, n: int, level: float) -> float:
    """Return the exact standard deviation of the coverage; NaN if the distribution is
    not known.
    """
    if method in (CENTRALISED, SINGLE):
        return fc.baselines.coverage_law(
            m * n if method == CENTRALISED else n, level
        ).std()
    plan = next(one for one in METHODS if one.name == method).plan
    return np.nan if plan is None else plan((n,) * m, level).law.std()


# -- tables --


def markdown(heads: list[str], lines: list[list[str]]) -> str:
    """Return a table in Markdown."""
    head, *body = ("| " + " | ".join(line) + " |" for line in [heads, *lines])
    return "\n".join([head, "|---" * len(heads) + "|", *body])


def table(rows: pd.DataFrame, columns: dict[str, Callable]) -> str:
    """Return a table in Markdown: a line for each row, and for each head a function
    from a row to text.
    """
    lines = [[text(row) for text in columns.values()] for row in rows.itertuples()]
    return markdown(list(columns), lines)


def overall(splits: pd.DataFrame) -> str:
    """Return coverage, spread and length of each method over all data sets and models,
    once if repeated.
    """
    lines = []
    for scenario in (MANY, FEW):
        for method in METHODS:
            rows = keyed(splits, scenario, method.name)
            mean, error = estimate(rows["coverage"])
            pairs = rows.groupby(["dataset", "model"])
            sizes = pairs[["n_sites", "n_points", "confidence_level"]].first()
            exact = np.mean(
                [law_std(method.name, *one) for one in sizes.itertuples(index=False)]
            )
            ratio, ratio_error = length_ratio(splits, scenario, method.name)
            cells = [
                f"{mean:.4f}±{error:.4f}",
                f"{pairs['coverage'].std().mean():.4f}",
                "" if np.isnan(exact) else f"{exact:.4f}",
                f"{ratio:.3f}±{ratio_error:.3f}",
            ]
            if cells not in (line[2:] for line in lines):
                lines.append([SIGNS[scenario], method.name, *cells])
    heads = [
        "",
        "method",
        "mean coverage",
        "std over splits",
        "std, exact",
        "length / centralised",
    ]
    return markdown(heads, lines)


def private(splits: pd.DataFrame) -> str:
    """Return coverage and length of private calibration by data set, with the paper's
    model.
    """
    lines = []
    chosen = splits[(splits["scenario"] == PRIVATE) & (splits["model"] == "forest")]
    for name, found in chosen.groupby("dataset", sort=False):
        cells = []
        for method in PRIVATE_METHODS:
            epsilon = (
                found["epsilon"].isna()
                if method.epsilon is None
                else found["epsilon"] == method.epsilon
            )
            one = found[(found["method"] == method.name) & epsilon]
            error = one["coverage"].std() / np.sqrt(len(one))
            cells.append(
                f"{one['coverage'].mean():.3f}±{error:.3f}/{one['length'].mean():.3f}"
            )
        lines.append(
            [name, *("no plan" if cell.endswith("inf") else cell for cell in cells)]
        )
    names = {PAPER: "paper", CURVE: "ours"}
    heads = [
        f"{names[method]}, ε = {epsilon:g}" for method in names for epsilon in EPSILONS
    ]
    return markdown(["data set", QQ, *heads], lines)


def hospital_table(cells: pd.DataFrame) -> str:
    """Return coverage in percent by rule: all patients, and the worst of each kind; no
    rule of full sets.
    """
    lines = []
    for rule, found in cells.groupby("rule", sort=False):
        here, left_out = (
            found[found["part"] == part]
            for part in (hospitals.HERE, hospitals.LEFT_OUT)
        )
        no_site, no_class = (
            here["hospital"] == hospitals.ALL,
            here["truth"] == hospitals.ALL,
        )
        whole = here[no_site & no_class].iloc[0]
        if whole["size"] == len(hospitals.CLASSES):
            continue
        new = left_out[
            (left_out["hospital"] != hospitals.ALL)
            & (left_out["truth"] == hospitals.ALL)
        ]
        groups = (
            here[~no_site & no_class],
            here[no_site & ~no_class],
            here[~no_site & ~no_class],
            new,
        )
        worst = [_worst(group) for group in groups]
        lines.append([rule, _share(whole), *worst, f"{whole['size']:.2f}"])
    heads = ["rule", "all", "worst hospital", "worst class",
             "worst class at a hospital", "worst hospital left out",
             "labels in a set"]  # fmt: skip
    return markdown(heads, lines)


def _share(cell: pd.Series) -> str:
    text = f"{100 * cell['coverage']:.1f}"
    return f"**{text}**" if cell["short"] else text


def _worst(group: pd.DataFrame) -> str:
    if group.empty:
        return "no answer"
    cell = group.loc[group["coverage"].idxmin()]
    who = [part for part in (cell["truth"], cell["hospital"]) if part != hospitals.ALL]
    return f"{_share(cell)} ({', '.join(who)})"


def school_table(summary: pd.DataFrame) -> str:
    """Return coverage at new schools and width by method, where the width is finite."""
    columns = {
        "method": lambda row: row.method,
        "level": lambda row: f"{100 * row.confidence_level:.0f} %",
        "mean over new schools": lambda row: f"{row.coverage:.3f}±{row.error:.3f}",
        "spread between schools": lambda row: f"{row.spread:.3f}",
        "schools below the level": lambda row: f"{100 * row.below:.0f} %",
        "without the noise of counting": lambda row: f"{100 * row.truly_below:.0f} %",
        "width": lambda row: f"{row.width:.2f}",
    }
    return table(summary[np.isfinite(summary["width"])], columns)


def published_table() -> str:
    """Return the authors' 30 means: coverage in percent / length of each method, by
    data set and model.
    """
    means = (
        authors.published()
        .set_index(["scenario", "dataset", "model", "method"])
        .sort_index()
    )
    methods = {QQ: "QQ", CENTRALISED: "pooled", AVERAGE_NEXT: "Avg"}
    lines = []
    for scenario in (MANY, FEW):
        for name in DATA_SETS:
            cells = [
                means.loc[scenario, name, model, method]
                for model in MODELS
                for method in methods
            ]
            texts = [f"{cell['coverage']:.2f}/{cell['length']:.3f}" for cell in cells]
            lines.append([f"{name}, {SIGNS[scenario]}", *texts])
    return markdown(
        ["", *(f"{model}, {short}" for model in MODELS for short in methods.values())],
        lines,
    )


def tables(docs: Path) -> dict[str, dict[str, str]]:
    """Return the tables of each page by name, from the published rows."""
    splits = pd.read_csv(docs / SPLITS)
    return {
        "research.md": {
            "overall": overall(splits),
            "private": private(splits),
            "published": published_table(),
        },
        "cases.md": {
            "hospitals": hospital_table(pd.read_csv(docs / "results-hospitals.csv")),
            "schools": school_table(pd.read_csv(docs / "results-schools.csv")),
        },
    }


# -- writing --


def with_tables(page: str, tables: dict[str, str]) -> str:
    """Return the page with its tables, each between ``<!-- table NAME -->`` and ``<!--
    end -->``.
    """
    for name, table in tables.items():
        between = re.compile(
            rf"(<!-- table {re.escape(name)} -->\n).*?(<!-- end -->)", re.DOTALL
        )
        page, count = between.subn(
            lambda match, table=table: f"{match[1]}\n{table}\n\n{match[2]}", page
        )
        if count != 1:
            raise ValueError(f"expected one place for the table {name!r}, got {count}")
    return page


def published_rows(docs: Path) -> dict[str, pd.DataFrame]:
    """Return the rows of each study whose figure can be drawn from what is
    published.
    """
    splits = pd.read_csv(docs / SPLITS)
    compared = splits[splits["scenario"] != PRIVATE]
    return {
        "compensation": pd.read_csv(docs / "results-compensation.csv"),
        "open-questions": pd.read_csv(docs / "results-open-questions.csv"),
        "authors": pd.read_csv(docs / "results-authors.csv"),
        "coverage": compared,
        **{name: compared[compared["dataset"] == name] for name in DATA_SETS},
        "private": splits[splits["scenario"] == PRIVATE],
        "problem": pd.read_csv(docs / "results-hospitals.csv"),
    }


def publish_run(folder: Path, docs: Path) -> None:
    """Copy the figures and results of a run into the documentation."""
    found = {
        path.stem: pd.read_csv(path) for path in (folder / "results").glob("*.csv")
    }
    for name, summary in SUMMARIES.items():
        if name in found:
            summary(found[name]).to_csv(docs / f"results-{name}.csv", index=False)
    if {"coverage", "private"} <= set(found):
        splits = pd.concat([found["coverage"], found["private"]])[SPLIT_COLUMNS]
        compression = {"method": "gzip", "mtime": 0}
        splits.to_csv(
            docs / SPLITS, index=False, float_format="%.10g", compression=compression
        )
    if (folder / "results" / "runs.json").exists():
        shutil.copy(folder / "results" / "runs.json", docs / "results-runs.json")
    for path in (folder / "figures").glob("*.png"):
        shutil.copy(path, docs / "figures")


def figure_of(name: str) -> Study:
    """Return the study of a figure; the first picture of the README is another view of
    the hospitals.
    """
    return PROBLEM if name == "problem" else STUDIES[name]


def write_pages(docs: Path) -> None:
    """Write means, tables and the figures that need no fits."""
    means = summarise(pd.read_csv(docs / SPLITS))
    means.to_csv(docs / "results.csv", index=False, float_format="%.10g")
    for name, found in tables(docs).items():
        page = docs / name
        page.write_text(
            with_tables(page.read_text(encoding="utf-8"), found), encoding="utf-8"
        )
    computed = {name: STUDIES[name].compute(Settings()) for name in NO_FITS}
    for name, rows in (published_rows(docs) | computed).items():
        figure_of(name).save_figure(docs / "figures" / f"{name}.png", rows)


def main(arguments: list[str] | None = None) -> None:
    """Publish a run, if one is named, and write the pages."""
    parser = argparse.ArgumentParser(
        prog="python -m reproduce.publish", description=__doc__.split(":")[0]
    )
    parser.add_argument("docs", type=Path, help="folder of the documentation")
    parser.add_argument("--from", type=Path, dest="folder", help="folder of a full run")
    options = parser.parse_args(arguments)
    if options.folder:
        publish_run(options.folder, options.docs)
    write_pages(options.docs)


if __name__ == "__main__":
    main()
