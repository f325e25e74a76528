import hashlib
import http.server
import os
import threading
from functools import partial

import numpy as np
import pytest
from scipy import integrate, stats

from reproduce import data
from support import hoeffding_limit

FOLDER = os.environ.get(data.FOLDER)
needs_data = pytest.mark.skipif(
    not FOLDER, reason="FEDCONFORMAL_DATA does not name the paper's data sets"
)

CONTENT = (
    "a,b,strength\n" + "".join(f"{i},{i % 7},{2 * i}\n" for i in range(60))
).encode()
NAME = "Concrete_Data.csv"


@pytest.fixture
def small_concrete(monkeypatch, tmp_path):
    """A data set 'concrete' of 60 rows that is nowhere."""
    monkeypatch.delenv(data.FOLDER, raising=False)
    monkeypatch.setattr(data, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setitem(data.FILES, NAME, [hashlib.sha256(CONTENT).hexdigest()])


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A folder that is published on this machine, at the address that files are fetched
    from.
    """
    published = tmp_path / "published"
    published.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    running = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=str(published))
    )
    threading.Thread(
        target=partial(running.serve_forever, poll_interval=0.01), daemon=True
    ).start()
    monkeypatch.setattr(data, "CQR", f"http://127.0.0.1:{running.server_port}/")
    yield published
    running.shutdown()
    running.server_close()


def test_a_missing_file_is_named_with_its_address(small_concrete, tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        data.load("concrete")
    message = str(error.value)
    assert "\n" not in message
    for part in ("--download", data.CQR + NAME, str(tmp_path / "cache"), data.FOLDER):
        assert part in message
    with pytest.raises(
        ValueError,
        match="must be one of bio, bike, community, star, concrete, got 'iris'",
    ):
        data.load("iris")


def test_a_changed_file_is_refused(small_concrete, monkeypatch, tmp_path):
    monkeypatch.setenv(data.FOLDER, str(tmp_path))
    (tmp_path / NAME).write_bytes(CONTENT)
    assert data.load("concrete").X.shape == (60, 2)
    assert data.available("concrete")
    (tmp_path / NAME).write_bytes(CONTENT + b"1,2,3\n")
    with pytest.raises(
        ValueError, match=r"Concrete_Data\.csv is not the published file"
    ):
        data.load("concrete")


def test_download_fetches_once_and_refuses_another_file(
    small_concrete, server, tmp_path
):
    (server / NAME).write_bytes(b"<html>not here any more</html>")
    with pytest.raises(ValueError, match="hash"):
        data.load("concrete", download=True)
    assert not data.available("concrete")
    (server / NAME).write_bytes(CONTENT)
    assert len(data.load("concrete", download=True).y) == 60
    (server / NAME).unlink()
    assert len(data.load("concrete").y) == 60
    assert (tmp_path / "cache" / NAME).read_bytes() == CONTENT


def test_the_poisson_process_has_the_papers_distribution():
    """P(y > 1/2) by quadrature; 200,000 draws, false alarm 2e-7 (Hoeffding, both
    sides).
    """
    drawn = data.poisson(1000, 1000, 198_000, rng=5)
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
    assert np.array_equal(data.poisson(rng=3).y, data.poisson(rng=3).y)


@needs_data
@pytest.mark.parametrize(
    ("name", "shape", "first"),
    [
        ("bio", (45_730, 9), 17.284),
        ("bike", (10_886, 18), 16),
        ("community", (1_994, 100), 0.2),
        ("star", (2_161, 39), 447 + 507 + 568 + 587 + 473 + 538 + 579 + 593),
        ("concrete", (1_030, 8), 79.99),
    ],
)
def test_the_papers_data_sets(name, shape, first):
    found = data.load(name)
    assert found.X.shape == shape
    assert np.isfinite(found.X).all()
    assert found.y[0] == pytest.approx(first)
    for sites, points in (found.many_sites, found.few_sites):
        assert sites * points <= found.n_calibration
