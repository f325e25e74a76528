"""Files that are as large or as twisted as their sender can make them, and a reader with little to spend.

``python tests/security/hostile_files.py FILES...`` reads each of them with two seconds of processor time and
500 MB of memory beyond what the interpreter has, and prints how it went, as JSON.
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

    return json.dumps(with_digest({"format": f"fedconformal/{kind}", "version": 1, **fields})).encode()


def _part(**fields):
    return {"promise": "population", "criterion": "marginal", **fields}


def _level(i=0, **fields):
    return {"confidence_level": 0.5 + i / 1000, **fields}


def _blocks(count, ranks, **fields):
    return [{"count": 1, "n": 20 + i, "ranks": ranks, **fields} for i in range(count)]


def _closed(n_levels, blocks):
    return _part(levels=[_level(i, server_rank=1) for i in range(n_levels)], blocks=blocks)


def _open_plan(**fields):
    return {
        "format": "fedconformal/plan",
        "version": 1,
        "parts": [_part(levels=[_level(share="1/2")], **fields)],
    }


def _private(n_levels, n_edges, **fields):
    levels = [_level(i / 10, server_rank=1, quantile="1/2", slope="7/10") for i in range(n_levels)]
    rule = {"epsilon": 1.0, "mechanism": "exponential", "analysis": "tight"}
    return {
        "parts": [_part(levels=levels, blocks=[{"count": 5, "n": 40, "ranks": [[20]] * n_levels}])],
        "privacy": {**rule, "edges": [float(i) for i in range(n_edges)], **fields},
    }


def _aggregated(count):
    rule = {
        "epsilon": 1.0,
        "mechanism": "exponential",
        "analysis": "tight",
        "edges": [1.0, 2.0],
        "one_hot": True,
    }
    sites, rank = {"count": count, "n": 100, "ranks": [[90]]}, count // 2 + 1
    plan = {
        "format": "fedconformal/plan",
        "version": 1,
        "parts": [_part(levels=[_level(server_rank=rank, quantile="9/10", slope="7/10")], blocks=[sites])],
        "privacy": rule,
    }
    found = {"levels": [_level(server_rank=rank, threshold=2.0)], "aggregated": [sites]}
    return _document("calibration", plan=plan, parts=[found], assumptions=["alike"])


def _answered(count, n_groups=1):
    labels = [{}] if n_groups == 1 else [{"label": f"{i:04}"} for i in range(n_groups)]
    plan = _open_plan()
    plan["parts"] = [{**plan["parts"][0], **label} for label in labels]
    answers = [{"site": f"s{i:06}", "n": 1, "ranks": [[1]]} for i in range(count)]
    found = {"levels": [_level(server_rank=1, threshold=1.0)], "answers": answers}
    reports = [{"site": answer["site"], "report": ZERO} for answer in answers]
    return _document(
        "calibration",
        plan=plan,
        parts=[{**found, **label} for label in labels],
        reports=reports,
        assumptions=["alike"],
    )


def files():
    """The content of each file by its name: the kind it claims to be, what it is, and how it ends."""
    numbers = list(range(1, 21))
    sent = {"ranks": numbers, "values": [0.5] * 20}
    names = [f"site {i}" for i in range(45_000)]
    keys = [{"site": name, "public_key": f"ed25519:{i + 99:064x}"} for i, name in enumerate(names)]
    return {
        # As large as they may be, and in order
        "plan-blocks-read": _document("plan", parts=[_closed(1, _blocks(27_000, [[1]]))]),
        "plan-levels-read": _document("plan", parts=[_closed(100, _blocks(1_150, [[1]] * 100))]),
        "plan-numbers-read": _document(
            "plan", parts=[_closed(25, _blocks(230, [numbers] * 25, weights=[numbers] * 25))]
        ),
        "plan-names-read": _document("plan", **{"parts": _open_plan(names=names)["parts"]}),
        "plan-groups-read": _document(
            "plan",
            parts=[
                _part(label=f"{g:04}", levels=[_level(i, share="1/2") for i in range(2)]) for g in range(1000)
            ],
        ),
        "plan-private-read": _document("plan", **_private(10, 10_000)),
        "report-groups-read": _document(
            "report",
            plan=ZERO,
            site="A",
            parts=[{"label": f"{g:04}", "n": 30, "levels": [sent]} for g in range(1000)],
        ),
        "report-numbers-read": _document(
            "report", plan=ZERO, site="A", parts=[{"n": 30, "levels": [sent] * 25}]
        ),
        "calibration-answers-verified": _answered(2_000),
        "calibration-many-read": _answered(25_000),
        "calibration-groups-read": _answered(35, n_groups=1000),
        "calibration-sites-verified": _aggregated(10**7),
        # Too large
        "plan-keys-refused": _document("plan", parts=_open_plan(names=names)["parts"], keys=keys),
        "plan-commas-refused": b"[" + b"0," * 10**6 + b"0]",
        "plan-brackets-refused": b"[" * 200_000,
        "plan-objects-refused": b'{"a":' * 60_000,
        "plan-fields-refused": _document("plan", parts=[], **{f"x{i}": 0 for i in range(100_000)}),
        "plan-digits-refused": b'{"names":[' + b",".join([b"9" * 4300] * 3800) + b"]}",
        "plan-word-refused": b'{"names":"' + b"x" * (16 * 2**20 - 20) + b'"}',
        "plan-draws-refused": _document("plan", **_private(100, 10_000)),
        "plan-wrong-refused": _document("plan", parts=[0] * 200_000),
        "plan-wrong-blocks-refused": _document("plan", parts=[_closed(1, [{}] * 100_000)]),
        "plan-ranks-refused": _document("plan", parts=[_closed(1, _blocks(1, [list(range(1, 200_000))]))]),
        "report-values-refused": _document(
            "report",
            plan=ZERO,
            site="A",
            parts=[{"label": "a", "n": 9, "levels": [{"ranks": [], "values": [1] * 90_000}]}],
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
    kind, end = path.stem.split("-")[0], path.stem.split("-")[-1]
    try:
        found = readers[kind].read(path)
        if end != "verified":
            return "read"
        fc.audit.verify(found)
        return "verified"
    except fc.DocumentError:
        return "refused"


def _too_long(*_):
    raise TimeoutError("out of time")


def main(paths):
    """Read each file within the limits; what breaks them is told by name."""
    import fedconformal.web  # noqa: F401  (its memory is not the reader's)

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
