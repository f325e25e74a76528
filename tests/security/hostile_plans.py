"""Plans of every kind of message that are as costly to check as their sender can make
them, and some honest ones that are large.

``python tests/security/hostile_plans.py FILES...`` checks each of them in a process of
its own, with 500 MB of memory beyond what the interpreter has, and prints how it went,
as JSON.
"""

import json
import os
import resource
import signal
import sys
from decimal import Decimal
from pathlib import Path

import limits

SECONDS, MEMORY = 30.0, 500 * 2**20


def _plan(*designs, **fields):
    from documents.samples import with_digest

    content = {"format": "fedconformal/plan", "version": 1, "designs": list(designs)}
    return json.dumps(with_digest({**content, **fields}))


def _design(message, sites, votes, *, delta=None, levels=1, **fields):
    listed = [
        {"confidence_level": f"0.9{i:02}1" if levels > 1 else "0.9", "votes": votes}
        for i in range(levels)
    ]
    design = {
        "promise": "population",
        "criterion": "marginal" if delta is None else "conditional",
        "message": message,
        "levels": listed,
        "sites": sites,
        **fields,
    }
    return design if delta is None else {**design, "delta": delta}


def _kinds(number, first=20):
    return [{"count": 1, "n": first + i} for i in range(number)]


def _noisy(m, n, *, edges=2, epsilon="100", levels=1, raised=0, **fields):
    """A design of noisy counts; ``raised`` makes the offsets of all levels differ."""
    offsets = [
        [raised * level + edge % (raised + 1) for edge in range(edges - 1)]
        for level in range(levels)
    ]
    message = {
        "kind": "curve",
        "edges": [float(edge) for edge in range(edges)],
        "epsilon": epsilon,
        "offsets": offsets,
    }
    sites = [{"count": m, "n": n}]
    return _design(message, sites, m * n * 99 // 100, levels=levels, **fields)


def _exact(n, **fields):
    return _design(
        {"kind": "curve", "edges": [0.0, 1.0]}, [{"count": 1, "n": n}], n, **fields
    )


def _tied(n, votes):
    """The probability of ``votes`` of n, each with 1/2, up to rounding."""
    from scipy.special import betainc

    return f"{Decimal(float(betainc(votes, n - votes + 1, 0.5))):f}"


def _own(number, levels, *, first=20):
    """A design of exact counts with a threshold for each of many sizes of sites."""
    sites = _kinds(number, first)
    own = [[kind["n"] for kind in sites]] * levels
    message = {"kind": "curve", "edges": [0.0, 1.0], "own": own}
    return _design(
        message, sites, number, delta="0.1", levels=levels, promise="each-site"
    )


def _parts(m, n):
    message = {"kind": "curve", "edges": [0.0, 1.0], "parts": 10**6}
    return _design(message, [{"count": m, "n": n}], 1, delta="0.1")


def _ranks(sites, numbers=1, **fields):
    ranks = [[kind["n"] - numbers + 1 + i for i in range(numbers)] for kind in sites]
    message = {"kind": "ranks", "levels": [{"ranks": ranks}] * fields.get("levels", 1)}
    total = sum(kind["count"] for kind in sites) * numbers
    return _design(message, sites, total * 19 // 20, **fields)


def _bin(m, n, levels=1):
    level = {"gamma": "0.5", "local_rank": n - 10**6, "correction": 10**5}
    message = {
        "kind": "bin",
        "edges": [0.0, 1.0],
        "epsilon": "1",
        "levels": [level] * levels,
    }
    return _design(message, [{"count": m, "n": n}], m, levels=levels)


def _cases(m, n, levels=1):
    message = {"kind": "cases", "numbers": 20}
    return _design(
        message, [{"count": m, "n": n}], 20 * m, levels=levels, promise="new-site"
    )


def _in_groups(make):
    return [{**make(i), "group": f"{i:04}"} for i in range(1000)]


def plans():
    """The text of each plan by its name, which ends in how it is to go."""
    most, largest = 10**7, 2**30
    return {
        # Costly ones
        "noisy-largest-refused": _plan(_noisy(most, largest)),
        "noisy-largest-sure-refused": _plan(_noisy(most, largest, delta="0.1")),
        "noisy-large-refused": _plan(_noisy(most, 2**24)),
        "noisy-large-sure-refused": _plan(_noisy(most, 2**24, delta="0.1")),
        "noisy-bounded-refused": _plan(_noisy(10**6, 10**6, delta="0.1")),
        "noisy-wide-refused": _plan(_noisy(2 * 10**6, 10**4, edges=33, epsilon="0.7")),
        "noisy-levels-refused": _plan(
            _noisy(10**6, 10**6, edges=20, epsilon="1", levels=100, raised=100)
        ),
        "noisy-groups-refused": _plan(
            *_in_groups(lambda i: _noisy(1000 + i % 5, 10**5, edges=100, epsilon="1"))
        ),
        "exact-tie-refused": _plan(
            {
                **_exact(20_000, delta=_tied(20_000, 10_100)),
                "levels": [{"confidence_level": "0.5", "votes": 20_000}],
            }
        ),
        "exact-own-levels-refused": _plan(_own(5000, 100)),
        "parts-refused": _plan(_parts(most, largest)),
        "bin-largest-read": _plan(_bin(most, largest, levels=50)),
        "bin-groups-read": _plan(*_in_groups(lambda i: _bin(most - i, largest, 2))),
        "cases-largest-read": _plan(
            _cases(most, largest, levels=100), terms={"round": "0" * 32}
        ),
        "ranks-kinds-read": _plan(_ranks(_kinds(10_000))),
        "ranks-faulty-read": _plan(
            _ranks([{"count": most, "n": largest}], max_faulty=4 * 10**6)
        ),
        "ranks-numbers-read": _plan(_ranks(_kinds(10_000, 100), numbers=20)),
        "ranks-groups-read": _plan(
            *_in_groups(
                lambda i: _ranks([{"count": most, "n": 2**29 + i}], max_faulty=1000)
            )
        ),
        # Large ones
        "honest-equal-read": _plan(_ranks([{"count": 10**6, "n": 10**6}])),
        "honest-points-read": _plan(_ranks([{"count": 10, "n": 10**6}])),
        "honest-private-read": _plan(_noisy(10, 10**6, edges=500, epsilon="1")),
        "honest-private-sure-read": _plan(
            _noisy(10, 10**6, edges=500, epsilon="1", delta="0.1")
        ),
        "honest-private-sites-read": _plan(
            _noisy(10_000, 10**6, epsilon="1", edges=20, delta="0.1")
        ),
        "honest-private-levels-read": _plan(
            _noisy(10, 10**6, edges=1000, epsilon="1", levels=80)
        ),
        "honest-own-read": _plan(_own(5000, 1, first=2000)),
    }


def _check(path):
    """How checking a plan goes."""
    import fedconformal as fc
    from fedconformal.messages import check_plan

    plan = fc.Plan.read(path)
    try:
        check_plan(plan)
        return "read"
    except ValueError:
        return "refused"


def _too_long(*_):
    raise TimeoutError("out of time")


def _check_alone(path, seconds):
    """How it goes in a child with limited memory, and its peak in megabytes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        size = pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        signal.signal(signal.SIGVTALRM, _too_long)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            outcome = _check(path)
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}"[:200]
        os.write(writer, outcome.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        outcome = file.read()
    os.waitpid(child, 0)
    return outcome or "killed"


def main(paths):
    """Check each plan within the limits; what breaks them is told by name."""
    import scipy.fft
    import scipy.optimize.elementwise  # noqa: F401  (its memory is not the plan's)

    import fedconformal.protocol  # noqa: F401

    outcomes, allowed = {}, limits.seconds(SECONDS)
    for path in map(Path, paths):
        outcomes[path.stem] = _check_alone(path, allowed)
    print(json.dumps(outcomes))


if __name__ == "__main__":
    main(sys.argv[1:])
