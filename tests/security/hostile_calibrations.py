"""Calibrations that are as expensive to recount as a document of a few megabytes can be.

As a program, ``hostile_calibrations.py NAMES...`` certifies each of them in a process of its own, within
limits that the operating system enforces, and prints how it went, as JSON.
"""

import json
import math
import os
import sys
import tempfile
import traceback
from fractions import Fraction

import limits

import fedconformal as fc
from fedconformal.documents import (
    Aggregate,
    Answer,
    Calibration,
    CalibrationPart,
    Level,
    Plan,
    PlanBlock,
    PlanPart,
    PrivacyRule,
    Received,
    Threshold,
)

N = 2**30


def ranks_at(n, level, numbers=1):
    """A few ranks round the level, a standard deviation apart."""
    middle, step = math.ceil(level * (n + 1)), max(1, math.isqrt(int(n * level * (1 - level))))
    found = {min(max(middle + (i - numbers // 2) * step, 1), n) for i in range(numbers)}
    return tuple(sorted(found))


def calibration(sizes, *, levels=(0.9,), numbers=1, weights=None, part=0.6, **options):
    """A calibration of sites of these sizes, all of which answered, that nobody has planned."""
    names = [f"site {i:07}" for i in range(len(sizes))]
    ranks = [tuple(ranks_at(n, level, numbers) for level in levels) for n in sizes]
    votes = [None if weights is None else tuple((weights[i],) for _ in levels) for i in range(len(sizes))]
    totals = [
        sum(len(each[i]) * (1 if weights is None else weights[j]) for j, each in enumerate(ranks))
        for i in range(len(levels))
    ]
    needed = [max(1, int(part * total)) for total in totals]
    blocks = tuple(
        PlanBlock(count=1, n=n, ranks=each, weights=vote, names=(name,))
        for name, n, each, vote in zip(names, sizes, ranks, votes, strict=True)
    )
    planned = tuple(
        Level(confidence_level=level, server_rank=votes) for level, votes in zip(levels, needed, strict=True)
    )
    criterion = options.pop("criterion", "marginal")
    plan = Plan(
        parts=(
            PlanPart(
                promise=options.pop("promise", "population"),
                criterion=criterion,
                levels=planned,
                blocks=blocks,
                **options,
            ),
        )
    )
    found = tuple(
        Threshold(confidence_level=level, server_rank=votes, threshold=1.0)
        for level, votes in zip(levels, needed, strict=True)
    )
    answers = tuple(
        Answer(site=name, n=n, ranks=each, weights=vote)
        for name, n, each, vote in zip(names, sizes, ranks, votes, strict=True)
    )
    return _whole(plan, CalibrationPart(levels=found, answers=answers), names)


def summed(count, n, *, levels=(0.9,), edges=100, epsilon=1.0):
    """Private sites whose answers were added up: the file does not grow with their number."""
    aimed = ((math.ceil(n * Fraction(19, 20)),),) * len(levels)
    privacy = PrivacyRule(
        epsilon=epsilon,
        mechanism="permute-and-flip",
        analysis="tight",
        edges=tuple(float(i) for i in range(1, edges + 1)),
        one_hot=True,
    )
    planned = tuple(
        Level(confidence_level=level, server_rank=count // 2, quantile="19/20", slope="7/10")
        for level in levels
    )
    block = PlanBlock(count=count, n=n, ranks=aimed)
    plan = Plan(
        parts=(PlanPart(promise="population", criterion="marginal", levels=planned, blocks=(block,)),),
        privacy=privacy,
    )
    found = tuple(
        Threshold(confidence_level=level, server_rank=count // 2, threshold=5.0) for level in levels
    )
    together = (Aggregate(count=count, n=n, ranks=aimed),)
    return _whole(plan, CalibrationPart(levels=found, aggregated=together), [])


def _whole(plan, part, names):
    received = tuple(Received(site=name, report=f"sha256:{i:064x}") for i, name in enumerate(names))
    return Calibration(
        plan=plan, parts=(part,), reports=received, assumptions=fc.protocol.assumptions_of(plan, 0)
    )


LEVELS = tuple(round(0.5 + i / 250, 4) for i in range(100))

CASES = {
    "one huge site": lambda: calibration([N]),
    "huge sites of different sizes": lambda: calibration([N - i for i in range(1000)]),
    "sizes of every order": lambda: calibration([int(1.2**i) + 20 for i in range(100)], numbers=5),
    "many sites of twenty numbers": lambda: calibration([10**6 + i for i in range(1000)], numbers=20),
    "large weights of twenty numbers": lambda: calibration(
        [10**9 + i for i in range(300)], numbers=20, weights=[2**20 - 7 * i for i in range(300)]
    ),
    "a hundred levels": lambda: calibration([500 + i for i in range(40)], levels=LEVELS),
    "as many levels of twenty numbers as there may be": lambda: calibration(
        [N - i for i in range(20)], levels=LEVELS[:25], numbers=20
    ),
    "many faulty sites": lambda: calibration([1000 + i for i in range(300)], max_faulty=100, part=0.7),
    "a few faulty sites with weights": lambda: calibration(
        [1000 + i for i in range(60)], weights=[100 + i for i in range(60)], max_faulty=5, part=0.6
    ),
    "tiny sites": lambda: calibration([1 + i % 3 for i in range(3000)], criterion="conditional", delta=0.1),
    "each of many sites": lambda: calibration(
        [N - i for i in range(3000)], promise="each-site", criterion="conditional", delta=0.1, part=1.0
    ),
    "ten million sites in a sum": lambda: summed(10**7, 300),
    "ten million huge sites in a sum": lambda: summed(10**7, N),
    "a hundred levels of a sum": lambda: summed(20, 300, levels=LEVELS, epsilon=100.0),
}


def certify(name):
    """Certify one of them; the operating system ends whoever takes more than its share."""
    import resource

    from fedconformal.web import NotVerifiedError, certificate

    text, allowed = CASES[name]().to_json(), limits.seconds(2)
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = math.ceil(used.ru_utime + used.ru_stime + allowed)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_DATA, (500 * 2**20, 500 * 2**20))
    try:
        return f"{len(certificate(Calibration.from_json(text)))} characters"
    except NotVerifiedError as error:
        return str(error)


def apart(name):
    """What became of it in a process that has everything imported: how that ended, and what it said."""
    with tempfile.TemporaryFile("w+") as said:
        child = os.fork()
        if child == 0:
            try:
                said.write(certify(name))
                code = 0
            except BaseException:
                said.write(traceback.format_exc()[-500:])
                code = 1
            said.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        return code, said.read()


def main(names):
    """Everything is imported once, for it is not what is limited; then each has a process of its own."""
    import fedconformal.web

    fedconformal.web.certificate(fc.conformalize({"A": range(30)}))
    print(json.dumps({name: apart(name) for name in names}))


if __name__ == "__main__":
    main(sys.argv[1:])
