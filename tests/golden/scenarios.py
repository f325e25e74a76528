"""Plans, calibrations, findings and exit codes, described by value.

``python tests/golden/scenarios.py`` prints the answers of the installed package as
JSON; ``answers.json`` holds the accepted ones. Only names of the documented interface
are used, so that the corpus outlives any rebuilding of the documents.
"""

import contextlib
import io
import itertools
import json
import math
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import fedconformal as fc

EQUAL = {f"s{i}": 79 for i in range(10)}
UNEVEN = {"north": 120, "south": 40, "west": 377, "east": 88}
MANY = {f"s{i:02}": 20 + 13 * (i * i % 29) for i in range(17)}
SMALL = {"a": 9, "b": 12, "c": 5}
FEDERATIONS = {"equal": EQUAL, "uneven": UNEVEN, "many": MANY, "small": SMALL}
GROUPS = {
    "adult": {"north": 90, "south": 60, "west": 200},
    "child": {"north": 40, "south": 55, "west": 35},
}


def plan_options():
    """Yield the name, the sizes and the options of every plan."""
    for (place, sizes), criterion in itertools.product(
        FEDERATIONS.items(), ("stable", "marginal", "conditional")
    ):
        for numbers in (1, 3):
            yield (
                f"{place} {criterion} {numbers}",
                sizes,
                {"criterion": criterion, "numbers": numbers},
            )
    for place, sizes in FEDERATIONS.items():
        yield (
            f"{place} paper ranks",
            sizes,
            {"local_ranks": "paper", "criterion": "marginal"},
        )
        yield f"{place} levels", sizes, {"confidence_level": [0.8, 0.9]}
        yield f"{place} faulty", sizes, {"max_faulty": 1, "confidence_level": 0.8}
        yield f"{place} missing", sizes, {"max_missing": 1}
        for promise, criterion in itertools.product(
            ("each-site", "new-site"), ("marginal", "conditional")
        ):
            yield (
                f"{place} {promise} {criterion}",
                sizes,
                {"promise": promise, "criterion": criterion},
            )
        yield f"{place} mixture", sizes, {"promise": "mixture"}
    shares = {"north": 0.5, "south": 0.1, "west": 0.2, "east": 0.2}
    yield (
        "uneven stated mixture",
        UNEVEN,
        {"promise": "mixture", "mixture": shares, "numbers": 3},
    )
    yield (
        "uneven delta",
        UNEVEN,
        {"criterion": "conditional", "delta": 0.05, "numbers": 2},
    )


def grouped_options():
    """Yield the name and the options of every plan with several groups."""
    yield "labels", {"groups": GROUPS}
    yield (
        "labels, conditional",
        {"groups": GROUPS, "criterion": "conditional", "confidence_level": 0.8},
    )
    yield "labels, each site", {"groups": GROUPS, "promise": "each-site"}
    yield "labels, mixture", {"groups": GROUPS, "promise": "mixture"}
    yield "labels, levels", {"groups": GROUPS, "confidence_level": [0.7, 0.9]}
    yield "classes", {"groups": GROUPS, "group_by": "class"}
    yield (
        "sites",
        {"n_points": {"north": 90, "south": 60, "west": 200}, "group_by": "site"},
    )
    yield "sites and labels", {"groups": GROUPS, "group_by": ("site", "label")}
    yield (
        "open labels",
        {"groups": dict.fromkeys(GROUPS), "n_sites": ["north", "south", "west"]},
    )


def private_options():
    """Yield the name, the sizes and the options of every private plan."""
    bins = fc.Bins.uniform(0, 5, 50)
    for epsilon, criterion in itertools.product(
        (1.0, 5.0), ("marginal", "conditional")
    ):
        name = f"private {epsilon} {criterion}"
        yield (
            name,
            {f"s{i}": 500 for i in range(8)},
            {"privacy": fc.Privacy(epsilon, bins), "criterion": criterion},
        )
    yield (
        "private uneven",
        {"a": 400, "b": 700, "c": 900},
        {"privacy": fc.Privacy(4.0, bins)},
    )
    each = {"privacy": fc.Privacy(4.0, bins), "promise": "each-site"}
    yield "private each site", {"a": 400, "b": 700, "c": 900}, each
    paper = fc.Privacy(10.0, bins, analysis="paper")
    yield "private paper", {f"s{i}": 200 for i in range(5)}, {"privacy": paper}


def scores_of(sizes):
    """Return fixed exponential scores of each site."""
    rng = np.random.default_rng(20230)
    return {site: rng.exponential(size=n) for site, n in sizes.items()}


def describe_claim(claim, level):
    """Return the numbers that a plan or calibration of one group and level claims."""
    if claim.law is not None:
        law = claim.law
        return {"mean": law.mean(), "std": law.std(), "sf": float(law.sf(level))}
    return describe_guarantee(claim.guarantee)


def describe_guarantee(guarantee):
    """Return the numbers of a guarantee that are not None."""
    numbers = {
        "least mean": guarantee.mean,
        "least coverage": guarantee.coverage,
        "probability": guarantee.probability,
    }
    return {name: number for name, number in numbers.items() if number is not None}


def describe_threshold(value):
    """Return one threshold, or those of every level, as numbers that JSON can hold."""
    return [
        float(v) if math.isfinite(v) else str(float(v)) for v in np.atleast_1d(value)
    ]


def recomputed_threshold(plan, scores):
    """Return the threshold by brute force from the plan's ranks, weights and votes
    needed.
    """
    votes = []
    for own, local_ranks, weights in zip(
        scores.values(), plan.local_ranks, plan.weights, strict=True
    ):
        ordered, ranks = [*np.sort(own), math.inf], np.atleast_1d(local_ranks)
        for rank, weight in zip(
            ranks, np.broadcast_to(weights, ranks.shape), strict=True
        ):
            votes.append((ordered[rank - 1], weight))
    total = 0
    for value, weight in sorted(votes):
        total += weight
        if total >= plan.server_rank:
            return value
    return math.inf


def holds(calibration, reports):
    """Return whether every claim of a calibration holds."""
    return all(finding.holds for finding in fc.audit.verify(calibration, reports))


def describe_calibration(plan, scores, groups=None):
    """Return what a federation's calibration says, complete and without its first
    site.
    """
    labels, policy = groups or dict.fromkeys(scores), fc.SitePolicy(curves="plain")
    reports = [
        fc.report(plan, own, site=site, groups=labels[site], policy=policy)
        for site, own in scores.items()
    ]
    answers = []
    for present in (reports, reports[1:]):
        try:
            calibration = fc.calibrate(plan, present)
        except ValueError:
            answers.append({"refused": True})
            continue
        thresholds = {
            part.design.group or "": part.thresholds for part in calibration.parts
        }
        answers.append(
            {
                "thresholds": {
                    group: describe_threshold(values)
                    for group, values in thresholds.items()
                },
                "missing": list(calibration.missing),
                "verified": holds(calibration, present),
            }
        )
    return answers


def single_answers():
    """Yield plans and calibrations of one group, with the law and a brute-force
    threshold.
    """
    for name, sizes, options in plan_options():
        try:
            plan = fc.plan(n_points=sizes, **options)
        except ValueError:
            yield name, {"refused": True}
            continue
        scores = scores_of(sizes)
        answer = {"feasible": bool(np.all(plan.feasible))}
        drawn_at_random = (
            options.get("promise") == "new-site" and options["criterion"] == "marginal"
        )
        if "levels" not in name:
            level = options.get("confidence_level", 0.9)
            answer |= {
                "level": level,
                "criterion": options.get("criterion"),
                "delta": options.get("delta", 0.1),
            }
            answer["claim"] = describe_claim(plan, level)
        if not drawn_at_random:
            answer["calibrations"] = describe_calibration(plan, scores)
            if "claim" in answer:
                answer["recomputed"] = describe_threshold(
                    recomputed_threshold(plan, scores)
                )
                asked = [list(plan.local_ranks), list(plan.weights), plan.server_rank]
                answer["asked"] = json.loads(json.dumps(asked, default=int))
        yield name, answer


def grouped_answers():
    """Yield calibrations of several groups."""
    for name, options in grouped_options():
        try:
            plan = fc.plan(**options)
        except ValueError:
            yield name, {"refused": True}
            continue
        rng = np.random.default_rng(7)
        labels = {
            site: rng.permutation(
                np.repeat(list(GROUPS), [GROUPS[label][site] for label in GROUPS])
            )
            for site in ("north", "south", "west")
        }
        if name == "sites":
            scores = {
                site: rng.exponential(size=n) for site, n in options["n_points"].items()
            }
            yield name, {"calibrations": describe_calibration(plan, scores)[:1]}
            continue
        scores = {
            site: rng.exponential(np.where(own == "child", 2.0, 1.0))
            for site, own in labels.items()
        }
        yield (
            name,
            {
                "calibrations": describe_calibration(plan, scores, labels)[
                    : 1 if "site" in name else 2
                ]
            },
        )


def curve_answers():
    """Yield calibrations of exact counts."""
    for name, options in {
        "population": {"confidence_level": [0.8, 0.9]},
        "conditional": {"criterion": "conditional"},
        "each site": {"promise": "each-site"},
        "mixture": {"promise": "mixture"},
    }.items():
        plan = fc.plan(n_points=UNEVEN, curve=fc.Bins.uniform(0, 5, 100), **options)
        yield name, {"calibrations": describe_calibration(plan, scores_of(UNEVEN))}


def private_answers():
    """Yield the guarantees of private plans."""
    for name, sizes, options in private_options():
        plan = fc.plan(n_points=sizes, **options)
        yield (
            name,
            {"feasible": bool(plan.feasible), **describe_guarantee(plan.guarantee)},
        )


def edited_answers():
    """Yield whether the audit still accepts a calibration whose file somebody
    edited.
    """
    plan = fc.plan(n_points=UNEVEN, numbers=2)
    scores = scores_of(UNEVEN)
    reports = [fc.report(plan, own, site=site) for site, own in scores.items()]
    calibration = fc.calibrate(plan, reports)
    threshold = calibration.threshold
    other = fc.report(plan, scores["north"] + 1, site="north")
    yield "untouched", holds(calibration, reports)
    yield "another report", holds(calibration, [*reports[1:], other])
    yield "a report kept back", holds(fc.calibrate(plan, reports[1:]), reports)
    text = calibration.to_json()
    for name, old, new in (
        ("lower threshold", repr(threshold), repr(threshold / 2)),
        (
            "fewer votes",
            f'"votes":{plan.server_rank}',
            f'"votes":{plan.server_rank - 9}',
        ),
        ("higher level", '"confidence_level":"0.9"', '"confidence_level":"0.99"'),
    ):
        edited = text.replace(": ", ":").replace(old, new)
        if edited == text.replace(": ", ":"):
            yield name, "not in the file"
            continue
        try:
            yield name, holds(fc.Calibration.from_json(edited), reports)
        except ValueError:
            yield name, "refused"


COMMANDS = {
    "help": ["--help"],
    "unknown command": ["nonsense"],
    "plan": ["plan", "--points", "a=40,b=60", "-o", "{}/plan.json"],
    "plan again": ["plan", "--points", "a=40,b=60", "-o", "{}/plan.json"],
    "infeasible plan": ["plan", "--sites", "2", "--points", "2"],
    "infeasible plan, exit code": [
        "plan",
        "--sites",
        "2",
        "--points",
        "2",
        "--exit-code",
    ],
    "bad level": [
        "plan",
        "--points",
        "40",
        "--sites",
        "2",
        "--confidence-level",
        "1.5",
    ],
    "report a": [
        "report",
        "{}/plan.json",
        "{}/a.csv",
        "--site",
        "a",
        "-y",
        "-o",
        "{}/a.json",
    ],
    "report b": [
        "report",
        "{}/plan.json",
        "{}/b.csv",
        "--site",
        "b",
        "-y",
        "-o",
        "{}/b.json",
    ],
    "report with a missing score": [
        "report",
        "{}/plan.json",
        "{}/bad.csv",
        "--site",
        "a",
        "-y",
        "-o",
        "{}/c.json",
    ],
    "report of nobody": [
        "report",
        "{}/plan.json",
        "{}/a.csv",
        "--site",
        "stranger",
        "-y",
        "-o",
        "{}/d.json",
    ],
    "calibrate": [
        "calibrate",
        "{}/plan.json",
        "{}/a.json",
        "{}/b.json",
        "-o",
        "{}/calibration.json",
    ],
    "calibrate without a site": [
        "calibrate",
        "{}/plan.json",
        "{}/a.json",
        "-o",
        "{}/fewer.json",
    ],
    "verify": [
        "verify",
        "{}/calibration.json",
        "--reports",
        "{}/a.json",
        "--reports",
        "{}/b.json",
    ],
    "verify another report": [
        "verify",
        "{}/calibration.json",
        "--reports",
        "{}/a.json",
    ],
    "predict without a score": ["predict", "{}/calibration.json", "{}/a.csv"],
    "certificate": ["certificate", "{}/calibration.json", "-o", "{}/page.html"],
    "missing file": ["verify", "{}/nowhere.json"],
    "not a document": ["verify", "{}/a.csv"],
}


def exit_codes():
    """Yield the exit code of every command, run in this order in one folder."""
    from fedconformal.cli import run

    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(3)
        for site, n in (("a", 40), ("b", 60)):
            rows = "\n".join(map(str, rng.exponential(size=n)))
            Path(folder, f"{site}.csv").write_text(f"score\n{rows}\n")
        Path(folder, "bad.csv").write_text(
            "score\n" + "1.0\n" * 20 + "NA\n" + "2.0\n" * 19
        )
        for name, arguments in COMMANDS.items():
            words = [argument.format(folder) for argument in arguments]
            yield name, _exit_code(run, words)


def _exit_code(run, words):
    before = sys.argv
    sys.argv = ["fedconformal", *words]
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            run()
    except SystemExit as stop:
        return stop.code or 0
    finally:
        sys.argv = before
    return 0


SECTIONS = {
    "single": single_answers,
    "grouped": grouped_answers,
    "curves": curve_answers,
    "private": private_answers,
    "edited": edited_answers,
    "exit codes": exit_codes,
}


def answers(section):
    """Return the answers of one section by name."""
    with warnings.catch_warnings(action="ignore"):
        return dict(SECTIONS[section]())


if __name__ == "__main__":
    json.dump({section: answers(section) for section in SECTIONS}, sys.stdout, indent=1)
