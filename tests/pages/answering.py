"""The answer page in a browser, its functions by themselves, and the command that
writes the same reports.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import fedconformal as fc
from fedconformal.cli import main
from fedconformal.pages._answer import join_modules
from fedconformal.pages._render import read_asset

MODULES = ("documents", "messages", "tables", "plans", "reports")
NAMES = (
    "Float, Refusal, Table, SCORES, readJson, writeJson, sha256, isSiteName, decode,"
    " ranksOfRule, readPlan, readPolicy, prepare"
)
GLUE = """
window.schema = %s;
window.answerAll = async (questions) => {
  const answers = [];
  for (const question of questions) {
    const { plan, table, tabs, site, policy } = question;
    const { target, prediction, group, decimal } = question;
    try {
      const read = await readPlan(plan, schema);
      const cells = new Table(table, tabs);
      const scores = target === null ? cells.numbers(prediction, decimal)[0]
        : SCORES[read.score.name]
            .compute(cells, target, prediction, decimal, read.classes);
      const labels = group === null ? null : cells.labels(group);
      const limits = policy === null ? {} : readPolicy(policy);
      const { sentence, text } =
        await prepare(read, limits, site, scores, labels, target !== null);
      answers.push({ sentence, text });
    } catch (error) {
      answers.push({ refused: error.message, known: error instanceof Refusal });
    }
  }
  return answers;
};
"""


@dataclass(frozen=True)
class Question:
    """A plan, the table of a site, and which columns of it are meant."""

    plan: fc.Plan
    table: str
    site: str = "north"
    target: str | None = None
    prediction: tuple[str, ...] = ("score",)
    group: str | None = None
    policy: str | None = None
    decimal: str = ""
    suffix: str = ".csv"
    label: str = field(default="", compare=False)

    def for_page(self):
        content = {
            name: getattr(self, name)
            for name in ("table", "site", "target", "group", "policy", "decimal")
        }
        more = {
            "plan": self.plan.to_json(),
            "prediction": list(self.prediction),
            "tabs": self.suffix == ".tsv",
        }
        return content | more


def functions_page(folder):
    """Write a page that has the modules as they are, and a way to call them."""
    script = join_modules(MODULES) + GLUE % read_asset("answer/plan.schema.json")
    path = Path(folder, "functions.html")
    script += f"Object.assign(window, {{ {NAMES} }});"
    content = (
        f"<!doctype html><meta charset=utf-8><script type=module>{script}</script>"
    )
    path.write_text(content, encoding="utf-8")
    return path.as_uri()


def call(driver, expression, *arguments):
    """Value of an expression, in which ``given`` are the arguments; promises are waited
    for.
    """
    driver.set_script_timeout(600)
    script = (
        "const given = [...arguments]; const done = given.pop();"
        f" Promise.resolve({expression}).then(done);"
    )
    return driver.execute_async_script(script, *arguments)


def page_answers(driver, questions):
    """What the page computes: a text and a sentence, or why it refuses."""
    return call(
        driver,
        "answerAll(JSON.parse(given[0]))",
        json.dumps([each.for_page() for each in questions]),
    )


def command_answer(question, folder, capsys):
    """What ``fedconformal report`` writes and the sentence that it prints, or None and
    its refusal.
    """
    plan, table, output = (
        Path(folder, "p.json"),
        Path(folder, f"t{question.suffix}"),
        Path(folder, "r.json"),
    )
    plan.write_text(question.plan.to_json(), encoding="utf-8")
    table.write_text(question.table, encoding="utf-8", newline="")
    output.unlink(missing_ok=True)
    words = ["report", plan, table, "--site", question.site, "-o", output, "--yes"]
    if question.target is None:
        words += ["--column", question.prediction[0]]
    else:
        words += [
            "--target",
            question.target,
            *(w for name in question.prediction for w in ("--prediction", name)),
        ]
    if question.group is not None and question.group != question.target:
        words += ["--group", question.group]
    if question.decimal:
        words += ["--decimal", question.decimal]
    if question.policy is not None:
        Path(folder, "site.toml").write_text(question.policy, encoding="utf-8")
        words += ["--policy", Path(folder, "site.toml")]
    capsys.readouterr()
    code = main([str(word) for word in words])
    said = capsys.readouterr().err
    if code:
        assert code == 2, said
        return None, said
    asked = next(
        line for line in said.splitlines() if line.startswith("This plan asks")
    )
    return output.read_bytes().decode(), asked


# -- questions: every kind of plan that the page answers, odd numbers, every way to writ

ODD = [
    1e-7,
    1e16,
    1e22,
    123456789012345680.0,
    5e-324,
    2.5e-310,
    1.7976931348623157e308,
    0.0001,
    0.00001,
    1e15,
]
NAMES_OF_SITES = [
    "north",
    "St. Mary's",
    "Würzburg",
    "北京 医院",
    "مستشفى",
    "Łódź 2",
    "🏥",
    "a/b: c",
]


def csv(columns, separator=",", decimal=".", end="\n"):
    """Text of a table, with columns of numbers or text by name."""

    def write(cell):
        text = repr(float(cell)) if isinstance(cell, float) else str(cell)
        return text.replace(".", decimal)

    rows = [
        columns.keys(),
        *([write(cell) for cell in row] for row in zip(*columns.values(), strict=True)),
    ]
    return end.join([*(separator.join(row) for row in rows), ""])


def odd_scores(n, rng):
    """Scores with ties, infinities, subnormal and very large ones."""
    values = [float(value) for value in rng.exponential(size=n)]
    values[: len(ODD)] = ODD[:n]
    values[len(ODD) : len(ODD) + 4] = [float("inf"), 0.0, values[-1], values[-1]]
    return [values[i] for i in rng.permutation(n)][:n]


def questions(rng):
    """Yield questions of every kind, each with a label for a failure."""
    sizes = {"north": 120, "south": 40, "west": 377}
    designs = {
        "named": fc.plan(n_points=sizes),
        "three numbers": fc.plan(n_points=sizes, numbers=3),
        "two levels": fc.plan(
            n_points=sizes, numbers=2, confidence_level=[0.8, 0.9, 0.95]
        ),
        "conditional": fc.plan(
            n_points=sizes, criterion="conditional", delta=0.1, max_missing=1
        ),
        "faulty": fc.plan(n_points={**sizes, "x": 120, "y": 120}, max_faulty=1),
        "unnamed": fc.plan(10, 120),
        "uneven": fc.plan(n_points=[120, 120, 40, 377]),
        "paper": fc.plan(n_points=[120, 40, 377], local_ranks="paper"),
        "open": fc.plan(confidence_level=0.9),
        "open, three": fc.plan(confidence_level=[0.5, 0.9], numbers=3),
        "open, names": fc.plan(["north", "south"], confidence_level=0.95, numbers=20),
        "mixture": fc.plan(
            n_points=sizes,
            promise="mixture",
            mixture={"north": 0.5, "south": 0.3, "west": 0.2},
        ),
        "each-site": fc.plan(n_points=sizes, promise="each-site"),
        "each-site, too small": fc.plan(
            n_points=sizes, promise="each-site", confidence_level=0.999
        ),
        "each-site, open": fc.plan(promise="each-site"),
        "new-site": fc.plan(
            n_points=dict.fromkeys(["north", *"abcdefghijklmnopqrstuvwxyz"], 120),
            promise="new-site",
            criterion="conditional",
            delta=0.3,
        ),
        "infeasible": fc.plan(2, 120, confidence_level=0.9999),
        "by site": fc.plan(n_points=sizes, group_by="site"),
        "terms": fc.plan(
            n_points=sizes,
            terms={
                "expires": "2999-12-31T23:59:59Z",
                "model": "sha256:" + "0" * 64,
                "round": "a.b-c",
                "purpose": "Länge des Aufenthalts, “Tage”",
                "unit": "días",
                "coordinator": "Dr. Çelik",
            },
        ),
    }
    for label, plan in designs.items():
        yield Question(plan, csv({"score": odd_scores(120, rng)}), label=label)
    for name in NAMES_OF_SITES:
        yield Question(
            fc.plan(n_points={name: 30, "other": 30}),
            csv({"score": odd_scores(30, rng)}),
            name,
            label=name,
        )
    for n in (1, 2, 3, 5, 19, 100, 1000, 4321):
        for numbers, level in ((1, 0.9), (3, 0.9), (7, 0.99), (20, 1 / 3)):
            yield Question(
                fc.plan(confidence_level=level, numbers=numbers),
                csv({"score": odd_scores(n, rng)}),
                policy="max_numbers = 500",
                label=f"open {n} {numbers} {level}",
            )
    yield from curves(rng)
    yield from cases(rng)
    yield from groups(rng)


def curves(rng):
    """Yield questions for exact counts, which a policy must allow."""
    for bins in (
        fc.Bins.uniform(0, 1, 50),
        fc.Bins((0.1, 1.0, 1e-3 + 2, 1e16, 1e300)),
        fc.Bins.uniform(0, 5, 10, bounded=True),
    ):
        for policy in (
            'curves = "plain"',
            'curves = "plain" # yes\nround_down_to = 5\n',
        ):
            plan = fc.plan(n_points={"north": 120, "south": 40}, curve=bins)
            yield Question(
                plan,
                csv({"score": odd_scores(120, rng)}),
                policy=policy,
                label=f"curve {bins}",
            )
    plan = fc.plan(
        n_points={"north": 120, "south": 90},
        promise="each-site",
        curve=fc.Bins.uniform(0, 1, 50),
    )
    yield Question(
        plan,
        csv({"score": odd_scores(120, rng)}),
        policy='curves = "plain"',
        label="curve, each site",
    )
    groups = {"a": {"north": 60, "south": 50}, "b": {"north": 60}}
    table = csv({"score": odd_scores(120, rng), "g": ["a", "b"] * 60})
    yield Question(
        fc.plan(groups=groups, curve=fc.Bins.uniform(0, 1, 500)),
        table,
        group="g",
        policy='curves = "plain"',
        label="curve, groups",
    )


def cases(rng):
    """Yield questions in which the page computes the scores."""
    n = 120
    truth, mean = (
        rng.normal(size=(2, n)) * 10.0 ** rng.integers(-8, 9, size=n)
    ).tolist()
    spread, upper = (
        np.exp(rng.normal(size=n)).tolist(),
        (np.array(mean) + rng.exponential(size=n)).tolist(),
    )
    columns = {
        "truth": truth,
        "mean": mean,
        "sigma": spread,
        "lower": mean,
        "upper": upper,
    }
    scores = {
        "absolute": ("mean",),
        "normalized": ("mean", "sigma"),
        "cqr": ("lower", "upper"),
    }
    dialects = [
        (",", ".", "\n", ".csv"),
        (";", ",", "\r\n", ".csv"),
        ("\t", ",", "\r\n", ".tsv"),
        ("\t", ".", "\n", ".txt"),
    ]
    for score, names in scores.items():
        plan = fc.plan(
            n_points={"north": n, "south": 40},
            numbers=3,
            confidence_level=[0.5, 0.9],
            score=score,
        )
        for separator, decimal, end, suffix in dialects:
            table = csv(columns, separator, decimal, end)
            yield Question(
                plan,
                table,
                target="truth",
                prediction=names,
                suffix=suffix,
                label=f"{score} {separator!r}{decimal}",
            )
        yield Question(
            plan,
            csv({"score": odd_scores(n, rng), "other": truth}),
            label=f"{score}, scores of one's own",
        )
    probabilities = rng.dirichlet([1, 2, 3], size=n)
    classes = ["sick", "well", "Ü, “3”"]
    p = {f"p_{name}": probabilities[:, i].tolist() for i, name in enumerate(classes)}
    named = [classes[i] for i in rng.integers(3, size=n)]
    for known, columns in (
        (classes, p),
        (None, p),
        (classes, dict(reversed(p.items()))),
    ):
        plan = fc.plan(
            n_points={"north": n, "south": 40},
            numbers=2,
            score="lac",
            terms={} if known is None else {"classes": known},
        )
        truths = named if known else [f"p_{name}" for name in named]
        table = csv({"y": truths, **columns}, ";")
        yield Question(
            plan, table, target="y", prediction=tuple(columns), label=f"lac {known}"
        )
    table = csv(
        {
            "y": [float(classes.index(name)) for name in named],
            **{f"c{i}": column for i, column in enumerate(p.values())},
        }
    )
    yield Question(
        fc.plan(n_points={"north": n, "south": 40}, score="lac"),
        table,
        target="y",
        prediction=("c0", "c1", "c2"),
        label="lac by number",
    )
    table = csv(
        {
            "y": [str(1 + classes.index(name)) for name in named],
            **{f"{i + 1}": column for i, column in enumerate(p.values())},
        }
    )
    yield Question(
        fc.plan(n_points={"north": n, "south": 40}, score="lac"),
        table,
        target="y",
        prediction=("1", "2", "3"),
        label="lac by names that are numbers",
    )
    plan = fc.plan(
        groups=dict.fromkeys(classes),
        group_by="class",
        score="lac",
        terms={"classes": classes},
    )
    yield Question(
        plan,
        csv({"y": named, **p}, ";"),
        target="y",
        prediction=tuple(p),
        group="y",
        label="lac by class",
    )
    plan = fc.plan(
        groups=dict.fromkeys(classes), group_by="class", terms={"classes": classes}
    )
    yield Question(
        plan,
        csv({"score": odd_scores(n, rng), "y": named}, ";"),
        group="y",
        label="scores by class",
    )


def groups(rng):
    """Yield questions for plans with groups."""
    labels = ["old"] * 50 + ["young"] * 40 + ["ребёнок"] * 4 + ["7"] * 26
    table = csv({"score": odd_scores(120, rng), "age": labels})
    sizes = {
        "old": {"north": 50, "south": 9},
        "young": {"north": 40},
        "ребёнок": {"north": 4, "south": 70},
        "7": {"south": 20},
    }
    known = {"old": None, "young": None, "ребёнок": None, "7": None}
    yield Question(
        fc.plan(groups=sizes, confidence_level=[0.5, 0.8]),
        table,
        group="age",
        label="groups",
    )
    yield Question(fc.plan(groups=known), table, group="age", label="open groups")
    yield Question(
        fc.plan(groups=known, numbers=4),
        table,
        group="age",
        policy="min_group = 1\nmax_numbers = 100\n",
        label="open groups, all",
    )
    both = {
        "old": {"north": 50, "south": 9},
        "young": {"north": 40},
        "ребёнок": {"south": 30},
        "7": {"south": 20},
    }
    yield Question(
        fc.plan(groups=both, group_by=("site", "label")),
        table,
        group="age",
        label="site and label",
    )
    many = {f"g{i:03}": None for i in range(400)}
    table = csv(
        {"score": odd_scores(4000, rng), "g": [f"g{i % 400:03}" for i in range(4000)]}
    )
    yield Question(
        fc.plan(groups=many, numbers=3),
        table,
        group="g",
        policy="max_numbers = 5000",
        label="400 groups, in one line",
    )
