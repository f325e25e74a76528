"""A desk with the files of three sites, and the command as a person would run it."""

import numpy as np
import polars as pl
import pytest
from cli_desk import GROUP_SIZES, SIZES, SPREAD

import fedconformal as fc
from fedconformal.cli import main


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A directory with a plan, three score files and predictions."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    (tmp_path / "plan.json").write_text(
        fc.plan(n_points=SIZES, confidence_level=0.9).to_json()
    )
    for name, size in SIZES.items():
        np.savetxt(
            tmp_path / f"{name}.csv",
            rng.exponential(size=size),
            header="score",
            comments="",
        )
    np.savetxt(
        tmp_path / "predictions.csv",
        rng.normal(size=5),
        header="prediction",
        comments="",
    )
    return tmp_path


@pytest.fixture
def run(capsys):
    """Run a command, compare its exit code; a mistake is one line on stderr, and
    nothing on stdout.
    """

    def run(*arguments, code=0):
        capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == code
        printed = capsys.readouterr()
        assert (
            "\N{NO-BREAK SPACE}"
            not in printed.out.partition("<!doctype html>")[0] + printed.err
        )
        if code == 2:
            assert printed.err.startswith("fedconformal: ")
            assert printed.err.count("\n") == 1, printed.err
            assert "Traceback" not in printed.err
        return printed

    return run


@pytest.fixture
def reported(desk, run):
    """Let sites answer the plan; returns their files."""

    def reported(*names):
        for name in names or SIZES:
            run(
                "report",
                "plan.json",
                f"{name}.csv",
                "--site",
                name,
                "-o",
                f"{name}.json",
            )
        return [f"{name}.json" for name in names or SIZES]

    return reported


@pytest.fixture
def group_data():
    """Scores and labels of each site; groups differ in spread."""
    rng = np.random.default_rng(5)
    data = {}
    for site in SIZES:
        labels = np.repeat(
            list(GROUP_SIZES), [sizes[site] for sizes in GROUP_SIZES.values()]
        )
        rng.shuffle(labels)
        data[site] = (
            rng.exponential([SPREAD[label] for label in labels]),
            labels.tolist(),
        )
    return data


@pytest.fixture
def group_desk(tmp_path, monkeypatch, group_data):
    """A directory with sizes by group, a table of scores and labels for each site, and
    new cases.
    """
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{label},{site},{n}"
        for label, sizes in GROUP_SIZES.items()
        for site, n in sizes.items()
    ]
    (tmp_path / "sizes.csv").write_text("\n".join(["group,site,n", *rows, ""]))
    for site, (scores, labels) in group_data.items():
        pl.DataFrame({"score": scores, "age": labels}).write_csv(f"{site}.csv")
    (tmp_path / "new.csv").write_text(
        "id,age,prediction\n007,old,50\n008,young,51\n009,child,52\n"
    )
    return tmp_path


@pytest.fixture
def group_plan():
    return fc.plan(groups=GROUP_SIZES, confidence_level=0.8)


@pytest.fixture
def group_reported(group_desk, run):
    """Make a plan for the groups and let all sites answer; returns their files."""

    def group_reported():
        run(
            "plan",
            "--points",
            "sizes.csv",
            "--confidence-level",
            0.8,
            "-o",
            "plan.json",
        )
        for site in SIZES:
            run(
                "report",
                "plan.json",
                f"{site}.csv",
                "--group",
                "age",
                "--site",
                site,
                "-o",
                f"{site}.json",
            )
        return [f"{site}.json" for site in SIZES]

    return group_reported
