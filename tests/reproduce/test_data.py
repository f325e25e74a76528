import hashlib
import http.server
import os
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, stats

from fedconformal.experiments import MissingDataError, _data, available, from_table, load, poisson
from support import hoeffding_limit

FOLDER = os.environ.get(_data.DATA_FOLDER)
needs_data = pytest.mark.skipif(not FOLDER, reason="FEDCONFORMAL_DATA does not name the paper's data sets")

SMALL = "".join(f"{i},{i % 7},{2 * i}\n" for i in range(60))


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch, tmp_path):
    """No data but what a test puts there."""
    monkeypatch.delenv(_data.DATA_FOLDER, raising=False)
    monkeypatch.setattr(_data, "cache_folder", lambda: tmp_path / "cache")


@pytest.fixture
def small_concrete(monkeypatch):
    """A data set 'concrete' of 60 rows, with its own SHA-256."""
    content = ("a,b,strength\n" + SMALL).encode()
    files = {"Concrete_Data.csv": hashlib.sha256(content).hexdigest()}
    monkeypatch.setitem(_data._SOURCES, "concrete", _data._Source(files, _data._concrete, (2, 10), (10, 2)))
    return content


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder that is published on this machine; the address that the loader uses leads to it."""
    published = tmp_path / "published"
    published.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    running = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(published)))
    threading.Thread(target=partial(running.serve_forever, poll_interval=0.01), daemon=True).start()
    monkeypatch.setattr(_data, "DATA_ADDRESS", f"http://127.0.0.1:{running.server_port}/")
    yield published
    running.shutdown()
    running.server_close()


def test_what_is_nowhere_is_one_line_with_the_command_and_the_address(tmp_path):
    with pytest.raises(MissingDataError) as error:
        load("bio")
    message = str(error.value)
    assert "\n" not in message
    assert "fedconformal reproduce bio --download" in message
    assert _data.DATA_ADDRESS + "CASP.csv" in message
    assert str(tmp_path / "cache") in message
    assert _data.DATA_FOLDER in message


def test_an_unknown_data_set_names_those_that_are_known():
    with pytest.raises(
        ValueError, match="no data set 'iris'; there are bio, bike, community, star, concrete"
    ):
        load("iris")


def test_a_changed_file_is_refused(tmp_path, small_concrete):
    path = tmp_path / "Concrete_Data.csv"
    path.write_bytes(small_concrete)
    assert load("concrete", folder=tmp_path).X.shape == (60, 2)
    path.write_bytes(small_concrete + b"1,2,3\n")
    with pytest.raises(ValueError, match=r"Concrete_Data\.csv: is not the published file"):
        load("concrete", folder=tmp_path)


def test_the_folder_comes_before_the_environment_and_that_before_the_cache(
    tmp_path, monkeypatch, small_concrete
):
    for place in ("cache", "named", "given"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "Concrete_Data.csv").write_bytes(b"broken")
    monkeypatch.setenv(_data.DATA_FOLDER, str(tmp_path / "named"))
    for place in ("given", "named", "cache"):
        (tmp_path / place / "Concrete_Data.csv").write_bytes(small_concrete)
        assert load("concrete", folder=tmp_path / "given").y[-1] == 118
        assert available(folder=tmp_path / "given") == ["concrete"]
        (tmp_path / place / "Concrete_Data.csv").unlink()
        if place == "given":  # a folder that was named but lacks the file gives way to the next
            monkeypatch.setattr(_data, "_places", lambda folder: [tmp_path / "named", tmp_path / "cache"])
        if place == "named":
            monkeypatch.setattr(_data, "_places", lambda folder: [tmp_path / "cache"])


def test_download_fetches_once_and_keeps(server, tmp_path, small_concrete):
    with pytest.raises(MissingDataError):
        load("concrete")
    (server / "Concrete_Data.csv").write_bytes(small_concrete)
    assert len(load("concrete", download=True).y) == 60
    (server / "Concrete_Data.csv").unlink()
    assert len(load("concrete").y) == 60
    assert (tmp_path / "cache" / "Concrete_Data.csv").read_bytes() == small_concrete


def test_download_of_something_else_is_refused(server, tmp_path, small_concrete):
    (server / "Concrete_Data.csv").write_bytes(b"<html>not here any more</html>")
    with pytest.raises(ValueError, match="is not the file that was expected"):
        load("concrete", download=True)
    assert not (tmp_path / "cache" / "Concrete_Data.csv").exists()


def test_a_server_without_the_file_is_one_line(server, small_concrete):
    with pytest.raises(OSError, match="cannot be fetched") as error:
        load("concrete", download=True)
    assert "\n" not in str(error.value)


def test_the_poisson_process_has_the_papers_law():
    """P(y > 1/2) by quadrature; false alarm 2e-7 (Hoeffding, both sides)."""
    drawn = poisson(1000, 1000, 198_000, rng=5)
    assert drawn.X.shape == (200_000, 1)
    assert (drawn.n_train, drawn.n_calibration) == (1000, 1000)
    assert 1 <= drawn.X.min() < drawn.X.max() <= 5

    def above(x):
        rate, counts = np.sin(x) ** 2 + 0.1, np.arange(12)
        plain = stats.norm.sf(0.5, counts, 0.03 * x)
        outlier = stats.norm.sf(0.5, counts, np.hypot(0.03 * x, 25))
        return stats.poisson.pmf(counts, rate) @ (0.99 * plain + 0.01 * outlier) / 4

    expected = integrate.quad(above, 1, 5)[0]
    assert abs(np.mean(drawn.y > 0.5) - expected) < hoeffding_limit(200_000)
    assert np.array_equal(poisson(rng=3).y, poisson(rng=3).y)
    assert not np.array_equal(poisson(rng=3).y, poisson(rng=4).y)


def table(path, text):
    path.write_text(text)
    return path


def test_any_table_is_a_data_set(tmp_path):
    rows = "".join(f"{i},{'red' if i % 2 else 'blue'},{i / 10}\n" for i in range(200))
    own = from_table(table(tmp_path / "houses.csv", "size,colour,price\n" + rows), "price")
    assert own.name == "houses"
    assert own.X.shape == (200, 2)
    assert own.X[:3, 1].tolist() == [0, 1, 0]  # by the alphabet
    assert own.y[10] == 1.0
    assert (own.many_sites, own.few_sites) == ((8, 10), (10, 8))


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("a,b\n" + "1,2\n" * 60, "c", "no column 'c'; there are a, b"),
        ("a\n" + "1\n" * 60, "a", "its only column"),
        ("a,b\n" + "1,2\n" * 60 + ",2\n", "b", "column 'a' has 1 empty cells"),
        ("a,b\n" + "1,2\n" * 60 + "3,\n", "b", "column 'b': NaN or empty"),
        ("a,b\n" + "1,x\n" * 60, "b", "must hold numbers"),
        ("a,b\n" + "1,2\n" * 10, "b", "at least 50 rows"),
    ],
)
def test_a_table_that_will_not_do_says_why(tmp_path, text, target, message):
    with pytest.raises(ValueError, match=message):
        from_table(table(tmp_path / "own.csv", text), target)


@needs_data
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("bio", (45_730, 9)),
        ("bike", (10_886, 18)),
        ("community", (1_994, 100)),
        ("star", (2_161, 39)),
        ("concrete", (1_030, 8)),
    ],
)
def test_the_papers_data_sets(name, shape):
    found = load(name, folder=Path(FOLDER))
    assert found.X.shape == shape
    for sites, points in (found.many_sites, found.few_sites):
        assert sites * points <= found.n_calibration
    targets = {
        "bio": 17.284,
        "bike": 16,
        "community": 0.2,
        "star": 447 + 507 + 568 + 587 + 473 + 538 + 579 + 593,
    }
    assert found.y[0] == pytest.approx(targets.get(name, 79.99))
