"""A calibration round on an engine beside others by turns: one float, all scores; masks
beside none.
"""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import fedconformal as fc
from benchmarks._rows import Figure, Row, beside, timed
from benchmarks._timing import summarise

GOAL_TIME, GOAL_BYTES = 1.2, 2048
MASKED_CELLS = 200

Rounds = Mapping[str, Mapping[str, Any]]
"""For each kind of round the seconds of every repetition, and the bytes per site."""


def measured(simulate: Callable[[Path, Path], str]) -> Rounds:
    """What a simulation wrote to its output; it is given a folder and that file."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        output = home / "result.json"
        printed = simulate(home, output)
        if not output.exists():
            raise RuntimeError(f"the simulation gave no result:\n{printed[-3000:]}")
        rounds: Rounds = json.loads(output.read_text())
        return rounds


MODEL = f"sha256:{64 * 'a'}"
"""The model that sites have at home."""


def write_masked(folder: Path, sites: Sequence[str], points: int, rounds: int) -> None:
    """Write what rounds of counts need: a key and a policy for each site, a plan, and
    masked ones.

    There is a masked plan for each round: the answer to the same one would be replayed.
    """
    folder.mkdir()
    keys = {site: fc.SigningKey.new() for site in sites}
    public = {site: key.public_key for site, key in keys.items()}
    for site, key in keys.items():
        (folder / f"{site}.pem").touch(mode=0o600)
        (folder / f"{site}.pem").write_bytes(key.to_pem())
        policy = (
            f'curves = "plain"\nsum_with = {[*public.values()]}\nmasked_only = false\n'
        )
        policy += f'sum_record = "{site}.sums"\nmodel = "{MODEL}"\n'
        (folder / f"{site}.toml").write_text(policy)
    options = {
        "n_points": dict.fromkeys(sites, points),
        "curve": fc.Bins.uniform(0, 1, MASKED_CELLS),
    }
    plans = {"counts": fc.plan(**options, keys=public)}
    plans |= {
        f"masked-{i}": fc.plan(
            **options, keys=public, masked=True, terms={"model": MODEL}
        )
        for i in range(rounds)
    }
    for name, plan in plans.items():
        (folder / f"{name}.json").write_text(plan.to_json())


def engine_rows(
    sites: int,
    points: int,
    rounds: Rounds,
    *,
    floor: str,
    kind: str = "simulated",
    goal: float = GOAL_TIME,
) -> Iterator[Row]:
    """The time beside both yardsticks, and what travelled."""
    setting = f"{sites} {kind} sites"
    yield _time_row(
        "calibration round, beside the floor",
        setting,
        rounds,
        "floor",
        floor,
        goal=goal,
    )
    if "masked" in rounds:
        words = f"the same {MASKED_CELLS} counts, not masked"
        yield _time_row("masked round", setting, rounds, "counts", words, ours="masked")
    everything = f"all {points} scores"
    yield _time_row(
        "calibration round, beside sending all",
        setting,
        rounds,
        "everything",
        everything,
    )
    weight = {name: found["bytes"] for name, found in rounds.items()}
    yield beside(
        "message per site",
        setting,
        Figure(weight["ours"], "bytes"),
        Figure(
            weight["everything"],
            "bytes",
            f"{everything}; one float {weight['floor']:.0f}",
        ),
        goal=f"{GOAL_BYTES:,} bytes",
        met=weight["ours"] <= GOAL_BYTES,
    )


def _time_row(
    name: str,
    setting: str,
    rounds: Rounds,
    yardstick: str,
    words: str,
    *,
    goal: float | None = None,
    ours: str = "ours",
) -> Row:
    # By turns in one run: the ratio of neighbours forgives what the machine does
    # beside.
    pairs = zip(rounds[ours]["seconds"], rounds[yardstick]["seconds"], strict=True)
    return timed(name, setting, summarise(list(pairs)), words, goal=goal)
