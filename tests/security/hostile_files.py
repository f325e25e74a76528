"""Files that are as large or as twisted as their sender can make them, and a reader
with little to spend.

``python tests/security/hostile_files.py FILES...`` reads each of them with two seconds
of processor time and 500 MB of memory beyond what the interpreter has, and prints how
it went, as JSON.
"""

import json
import resource
import signal
import sys
from pathlib import Path

import limits

SECONDS, MEMORY = 2.0, 500 * 2**20
ZERO = "sha256:" + "0" * 64


def _document(kind, **fields):
    from documents.samples import with_digest

    return json.dumps(
        with_digest({"format": f"fedconformal/{kind}", "version": 1, **fields})
    ).encode()


def _design(message, levels, **fields):
    return {
        "promise": "population",
        "criterion": "marginal",
        "message": message,
        "levels": levels,
        **fields,
    }


def _level(i=0, **fields):
    return {"confidence_level": f"0.5{i:03}1", **fields}


def _closed(n_levels, n_kinds, ranks=(1,), votes=None):
    """A design of many kinds of sites, each of which sends these ranks for each
    level.
    """
    level = {
        "ranks": [list(ranks)] * n_kinds,
        **({} if votes is None else {"votes": [list(votes)] * n_kinds}),
    }
    sites = [{"count": 1, "n": 20 + i} for i in range(n_kinds)]
    levels = [_level(i, votes=1) for i in range(n_levels)]
    return _design({"kind": "ranks", "levels": [level] * n_levels}, levels, sites=sites)


def _open(n_levels=1, **fields):
    levels = [_level(i) for i in range(n_levels)]
    message = {"kind": "ranks", "levels": [{"rule": {"share": "0.5"}}] * n_levels}
    return _design(message, levels, **fields)


def _gridded(n_levels, n_edges, **fields):
    """A design of noisy counts."""
    message = {
        "kind": "curve",
        "edges": [i / 7 for i in range(n_edges)],
        "epsilon": "1",
    }
    offsets = [[10**6] * (n_edges - 1)] * n_levels
    levels = [_level(i, votes=1) for i in range(n_levels)]
    return _design(
        {**message, "offsets": offsets}, levels, sites=[{"count": 5, "n": 40}], **fields
    )


def _mixed(shares):
    """A design of a mixture of sites with these shares."""
    sites = [
        {"count": 1, "n": 20 + i, "names": [f"{i}"], "share": share}
        for i, share in enumerate(shares)
    ]
    message = {"kind": "ranks", "levels": [{"ranks": [[1]] * len(shares)}]}
    return {**_design(message, [_level(votes=1)], sites=sites), "promise": "mixture"}


def _answered(count, n_groups=1, name="s"):
    groups = [{}] if n_groups == 1 else [{"group": f"{i:04}"} for i in range(n_groups)]
    plan = {
        "format": "fedconformal/plan",
        "version": 1,
        "designs": [_open(**group) for group in groups],
    }
    names = [f"{name}{i:06}" for i in range(count)]
    sites = [{"count": 1, "n": 1 + i, "names": [name]} for i, name in enumerate(names)]
    message = {
        "kind": "ranks",
        "levels": [{"ranks": [[1]] * count, "rule": {"share": "0.5"}}],
    }
    found = _design(message, [_level(votes=1)], sites=sites)
    return _document(
        "calibration",
        plan=plan,
        parts=[{"design": {**found, **group}, "thresholds": [1.0]} for group in groups],
        reports=[{"site": name, "report": ZERO} for name in names],
        assumptions=["alike"],
    )


def files():
    """The content of each file by its name: the kind it claims to be, what it is, and
    how it ends.
    """
    numbers = list(range(1, 21))
    sent = {"kind": "ranks", "levels": [{"ranks": numbers, "values": [0.5] * 20}]}
    counts = {"kind": "curve", "counts": [-(2**62)] * 10_001}
    names = [f"site {i}" for i in range(100_000)]
    keys = [
        {"site": name, "public_key": f"ed25519:{i + 2**200:064x}"}
        for i, name in enumerate(names)
    ]
    report = {"plan": ZERO, "site": "A"}
    return {
        # As large as they may be, and in order
        "plan-kinds-read": _document("plan", designs=[_closed(1, 60_000)]),
        "plan-levels-read": _document("plan", designs=[_closed(100, 3_500)]),
        "plan-numbers-read": _document(
            "plan", designs=[_closed(25, 500, numbers, numbers)]
        ),
        "plan-names-read": _document("plan", designs=[_open(names=names)]),
        "plan-groups-read": _document(
            "plan", designs=[_open(2, group=f"{g:04}") for g in range(1000)]
        ),
        "plan-private-read": _document("plan", designs=[_gridded(10, 10_000)]),
        "report-groups-read": _document(
            "report",
            **report,
            parts=[{"group": f"{g:04}", "n": 30, "payload": sent} for g in range(1000)],
        ),
        "report-counts-read": _document(
            "report", **report, parts=[{"n": 30, "payload": counts}]
        ),
        "calibration-many-read": _answered(100_000),
        "calibration-groups-read": _answered(140, n_groups=1000),
        "plan-keys-read": _document("plan", designs=[_open(names=names)], keys=keys),
        "plan-decimals-read": _document(
            "plan", designs=[_mixed([f"0.{i:0319}1" for i in range(50_000)])]
        ),
        "plan-wide-read": _document(
            "plan",
            designs=[_open(names=["\u0434" * 30 + str(i) for i in range(100_000)])],
        ),
        "calibration-astral-read": _answered(100_000, name="\U0001f3e5" * 3),
        # Too large
        "plan-phrases-refused": _document(
            "plan",
            designs=[_open(names=[f"{i}" + "\ufdfa" * 190 for i in range(20_000)])],
        ),
        "plan-units-refused": _document(
            "plan",
            designs=[_open(names=[f"{i}" + "\u33af" * 190 for i in range(20_000)])],
        ),
        "plan-fractions-refused": _document(
            "plan", designs=[_mixed([f"1/{10**39 + i}" for i in range(50_000)])]
        ),
        "plan-deep-refused": (
            b'{"format": ' + b"[" * 900 + b"]" * 900 + b', "version": 1}'
        ),
        "plan-deeper-refused": (
            b'{"digest": ' + b"[" * 900 + b"]" * 900 + _document("plan", designs=[])[1:]
        ),
        "plan-commas-refused": b"[" + b"0," * 750_000 + b"0]",
        "plan-brackets-refused": b"[" * 200_000,
        "plan-objects-refused": b'{"a":' * 60_000,
        "plan-fields-refused": _document(
            "plan", designs=[], **{f"x{i}": 0 for i in range(100_000)}
        ),
        "plan-digits-refused": b'{"names":[' + b",".join([b"9" * 4300] * 5700) + b"]}",
        "plan-word-refused": b'{"names":"' + b"x" * (24 * 2**20 - 20) + b'"}',
        "plan-cells-refused": _document("plan", designs=[_gridded(11, 10_000)]),
        "plan-wrong-refused": _document("plan", designs=[0] * 200_000),
        "plan-wrong-sites-refused": _document(
            "plan", designs=[_open(sites=[{}] * 100_000)]
        ),
        "plan-ranks-refused": _document(
            "plan", designs=[_closed(1, 1, range(1, 200_000))]
        ),
        "plan-ratios-refused": _document(
            "plan",
            designs=[_open(delta="0." + "3" * 320)] * 1000
            + [_open(delta="1/" + "9" * 10**6)],
        ),
        "report-values-refused": _document(
            "report",
            **report,
            parts=[
                {
                    "group": "a",
                    "n": 9,
                    "payload": {
                        "kind": "ranks",
                        "levels": [{"ranks": [], "values": [1] * 90_000}],
                    },
                }
            ],
        ),
    }


def _read(path):
    """How reading a file goes."""
    import fedconformal as fc

    readers = {
        "plan": fc.Plan,
        "report": fc.Report,
        "calibration": fc.Calibration,
        "check": fc.documents.Check,
    }
    try:
        document = readers[path.stem.split("-")[0]].read(path)
        assert len(repr(document)) < 10_000
        return "read"
    except fc.DocumentError:
        return "refused"


def _too_long(*_):
    raise TimeoutError("out of time")


def main(paths):
    """Read each file within the limits; what breaks them is told by name."""
    import fedconformal.protocol  # noqa: F401  (its memory is not the reader's)

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    signal.signal(signal.SIGVTALRM, _too_long)
    outcomes, allowed = {}, limits.seconds(SECONDS)
    for path in map(Path, paths):
        signal.setitimer(signal.ITIMER_VIRTUAL, allowed)
        try:
            outcomes[path.stem] = _read(path)
        except (MemoryError, TimeoutError) as error:
            outcomes[path.stem] = repr(error)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(sys.argv[1:])
