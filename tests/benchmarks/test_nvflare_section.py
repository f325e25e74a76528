"""The section of NVIDIA FLARE with an engine of the tests in place of FLARE's processes."""

import sys

import pytest

pytest.importorskip("nvflare", reason="the extra [nvflare] is not installed")

from benchmarks._engines import GOAL_BYTES
from flare_engine import LocalFlare

from benchmarks import nvflare


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.syspath_prepend(str(nvflare.APP))
    import flare_rounds

    class Both(flare_rounds.Report):
        """The executor that the name of the task chooses, as FLARE does."""

        def execute(self, task_name, *others):
            plain = task_name in {"floor", "everything"}
            executor = flare_rounds.Plain(self.points) if plain else super()
            return executor.execute(task_name, *others)

    def simulate(home, sites, points, repetitions, output):
        names = [f"site-{i + 1}" for i in range(int(sites))]
        engine = LocalFlare(home, {name: Both(int(points)) for name in names})
        assert engine.run(flare_rounds.Rounds(int(sites), int(points), int(repetitions), output)) == []
        return "printed"

    yield simulate
    del sys.modules["flare_rounds"]


def test_a_tiny_federation_is_timed_and_weighed(in_this_process):
    rows = list(nvflare.run(sites=[3], points=20, repetitions=2, simulate=in_this_process))
    assert [row.name for row in rows] == [
        "calibration round, beside the floor",
        "calibration round, beside sending all",
        "message per site",
    ]
    assert {row.setting for row in rows} == {"3 simulated sites"}
    assert rows[1].yardstick.words == "all 20 scores"
    assert 0 < rows[2].ours.value <= GOAL_BYTES
    assert rows[2].met


def test_a_simulation_without_a_result_says_what_it_printed():
    with pytest.raises(RuntimeError, match="gave no result:\nout of memory"):
        list(nvflare.run(sites=[3], simulate=lambda *_: "out of memory"))


def test_the_job_is_told_its_sizes(monkeypatch, tmp_path):
    class Done:
        stdout = "done"

    asked = []
    monkeypatch.setattr(nvflare.subprocess, "run", lambda command, **_: asked.append(command) or Done)
    assert nvflare.simulate(tmp_path, "3", "20", "2", "out.json") == "done"
    assert asked[0][1:] == [
        str(nvflare.APP / "job.py"),
        str(tmp_path / "workspace"),
        *("3", "20", "2", "out.json"),
    ]
