"""Case study: heart patients of four hospitals, healthy and sick in different
proportions.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pandas as pd
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fedconformal as fc
from reproduce import data
from reproduce.drawing import BLUE, GREY, VERMILION, panels
from reproduce.methods import average, centralised, new_round, plan_text
from reproduce.protocol import Settings

HOSPITALS = ("Cleveland", "Hungary", "Switzerland", "VA")
CLASSES = ("healthy", "sick")
HERE, LEFT_OUT, ALL = "took part", "left out", "all"
N_SPLITS = 50
GAPS = ((87, 12), (166, 11), (192, 11), (266, 12), (287, 11), (302, 11))
"""Row and column of the missing values of Cleveland, which a common copy fills with
zeros.
"""

SCORE = fc.scores.LAC()
COVERAGE_COLOURS = LinearSegmentedColormap.from_list(
    "coverage", [VERMILION, "white", BLUE]
)


@dataclass(frozen=True)
class Patients:
    """Features, or predicted probabilities, and the true classes of the patients of one
    hospital.
    """

    X: np.ndarray
    truth: np.ndarray

    def take(self, rows: np.ndarray) -> "Patients":
        """Return some of the patients."""
        return Patients(self.X[rows], self.truth[rows])

    @property
    def scores(self) -> np.ndarray:
        """Scores of the true classes, if ``X`` holds probabilities."""
        return SCORE.score(np.searchsorted(CLASSES, self.truth), self.X)


Federation = dict[str, Patients]


def load(*, download: bool = False) -> Federation:
    """Read the records of the four hospitals; findings that were not made are NaN."""
    records = {}
    for name, path in zip(
        HOSPITALS, data.find("hospitals", download=download), strict=True
    ):
        table = pd.read_csv(path, header=None, na_values="?").to_numpy(dtype=float)
        if name == HOSPITALS[0]:
            table[tuple(np.array(GAPS).T)] = np.nan
        records[name] = Patients(
            table[:, :-1], np.where(table[:, -1] > 0, CLASSES[1], CLASSES[0])
        )
    return records


# -- rules --


@dataclass(frozen=True)
class Rule:
    """A way to calibrate: ``threshold`` for one threshold from all scores, else a plan
    with ``options``.
    """

    name: str
    threshold: Callable | None = None
    level: float | None = None
    options: dict = field(default_factory=dict, hash=False)

    @property
    def by_site(self) -> bool:
        """Whether every hospital has thresholds of its own, and a new one none."""
        return "site" in self.options.get("group_by", ())

    def plan(self, sites: Federation, level: float) -> fc.Plan:
        """Return the plan for these hospitals."""
        counts = tuple(
            (name, *(int((site.truth == label).sum()) for label in CLASSES))
            for name, site in sites.items()
        )
        return _plan(self, counts, self.level or level)

    def sets(
        self, sites: Federation, level: float, split: int
    ) -> Callable[[np.ndarray, str], np.ndarray]:
        """Calibrate; return a function from probabilities and a hospital to prediction
        sets.
        """
        if self.threshold is not None:
            threshold = self.threshold(
                [site.scores for site in sites.values()], level, None
            )
            return lambda probabilities, _: np.asarray(
                SCORE.set(probabilities, threshold), dtype=bool
            )
        plan = new_round(
            self.plan(sites, level), np.random.default_rng([split, 6, len(sites)])
        )
        policy = fc.SitePolicy.unlimited()  # the hospitals are simulated
        by_class = "group_by" in self.options
        reports = [
            fc.report(
                plan,
                s.scores,
                site=name,
                groups=s.truth if by_class else None,
                policy=policy,
            )
            for name, s in sites.items()
        ]
        found = fc.calibrate(plan, reports)
        return lambda probabilities, name: found.predict_set(
            probabilities, site=name if self.by_site else None
        )


@cache
def _plan(rule: Rule, counts: tuple, level: float) -> fc.Plan:
    if "group_by" in rule.options:
        groups = {
            label: {row[0]: row[i] for row in counts}
            for i, label in enumerate(CLASSES, start=1)
        }
        sizes = {"groups": groups}
    else:
        sizes = {"n_points": {name: sum(n) for name, *n in counts}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.InfeasibleWarning)
        return fc.plan(
            confidence_level=level, score=SCORE.name, **sizes, **rule.options
        )


RULES = (
    Rule("centralised", centralised),
    Rule("FedCP-Avg", average),
    Rule("population (default)"),
    Rule("mixture", options={"promise": "mixture"}),
    Rule("each site", options={"promise": "each-site"}),
    Rule("new site", options={"promise": "new-site"}),
    Rule("new site, 75 %", level=0.75, options={"promise": "new-site"}),
    Rule("by class", options={"group_by": "class"}),
    Rule("by class, 5 numbers", options={"group_by": "class", "numbers": 5}),
    Rule("by class, each site", options={"group_by": "class", "promise": "each-site"}),
    Rule("by class and site", options={"group_by": ("site", "class")}),
)


# -- the study --


def compute(settings: Settings) -> pd.DataFrame:
    """Return covered patients and labels by split, rule, hospital and class; fewer
    splits if quick.
    """
    records = load(download=settings.download)
    return study(records, settings.level, 5 if settings.quick else N_SPLITS)


def study(
    records: Federation, level: float, n_splits: int, rules=RULES
) -> pd.DataFrame:
    """Split every hospital into thirds, train on the first, calibrate on the second,
    count on the third.

    Then leave out each hospital in turn: train and calibrate at the others, and count
    all of its patients.
    """
    rows = []
    for split in range(n_splits):
        rng = np.random.default_rng([split, 5])
        parts = {name: thirds(found.truth, rng) for name, found in records.items()}
        train, calibration, test = (
            {name: records[name].take(parts[name][i]) for name in records}
            for i in range(3)
        )
        rows += _count(HERE, train, calibration, test, rules, level, split)
        for name in records:
            others, asked = (
                {n: r for n, r in part.items() if n != name}
                for part in (train, calibration)
            )
            for_new = [rule for rule in rules if not rule.by_site]
            rows += _count(
                LEFT_OUT, others, asked, {name: records[name]}, for_new, level, split
            )
    columns = ["split", "rule", "confidence_level", "plan", "part", "hospital", "truth",
               "n", "covered", "labels"]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def thirds(truth: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """Return thirds of the patients, class by class, so that every split has the same
    sizes.
    """
    by_class = [
        np.array_split(rng.permutation(np.flatnonzero(truth == label)), 3)
        for label in CLASSES
    ]
    return [np.concatenate(parts) for parts in zip(*by_class, strict=True)]


def _count(part, train, calibration, test, rules, level, split) -> list[tuple]:
    """Train one model for all hospitals, calibrate by each rule, and count covered
    patients and labels.
    """
    model = make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True),
        StandardScaler(),
        LogisticRegression(max_iter=1000),
    )
    model.fit(
        np.vstack([r.X for r in train.values()]),
        np.concatenate([r.truth for r in train.values()]),
    )
    sites, new = (
        {
            name: Patients(model.predict_proba(found.X), found.truth)
            for name, found in patients.items()
        }
        for patients in (calibration, test)
    )
    rows = []
    for rule in rules:
        sets = rule.sets(sites, level, split)
        plan = None if rule.threshold else plan_text(rule.plan(sites, level))
        for name, cases in new.items():
            held = sets(cases.X, name)
            for k, truth in enumerate(CLASSES):
                own = held[cases.truth == truth]
                counts = (len(own), int(own[:, k].sum()), int(own.sum()))
                rows.append(
                    (
                        split,
                        rule.name,
                        rule.level or level,
                        plan,
                        part,
                        name,
                        truth,
                        *counts,
                    )
                )
    return rows


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return coverage, its standard error over splits and labels per set, by rule,
    hospital and class.

    Hospital and class may be ``"all"``. ``short`` tells whether the coverage is more
    than three standard errors below the level.
    """
    rows = pd.concat([rows, rows.assign(hospital=ALL)])
    rows = pd.concat([rows, rows.assign(truth=ALL)])
    keys = ["rule", "part", "hospital", "truth", "confidence_level"]
    by_split = rows.groupby([*keys, "split"], sort=False)[
        ["n", "covered", "labels"]
    ].sum()
    cells = by_split.groupby(keys, sort=False).sum()
    cells["coverage"] = cells["covered"] / cells["n"]
    # The share is a ratio of two sums, so its error is that of covered - share * n.
    rest = by_split["covered"] - cells["coverage"] * by_split["n"]
    spread = rest.groupby(keys, sort=False).agg(["std", "size"])
    cells["error"] = spread["std"] * np.sqrt(spread["size"]) / cells["n"]
    cells["size"] = cells["labels"] / cells["n"]
    cells = cells.reset_index()
    cells["short"] = cells["coverage"] < cells["confidence_level"] - 3 * cells["error"]
    return cells.drop(columns=["covered", "labels"])


# -- the figure --

BLOCKS = {
    "": [(ALL, HERE, ALL, ALL)],
    "at each hospital": [(name, HERE, name, ALL) for name in HOSPITALS],
    "each class": [(truth, HERE, ALL, truth) for truth in CLASSES],
    "healthy, at each hospital": [(name, HERE, name, "healthy") for name in HOSPITALS],
    "sick, at each hospital": [(name, HERE, name, "sick") for name in HOSPITALS],
    "a hospital left out": [(name, LEFT_OUT, name, ALL) for name in HOSPITALS],
}
"""Blocks of the table: heading, part, hospital and class of each column."""


def draw(rows: pd.DataFrame) -> Figure:
    """Draw a table of coverages in percent, by rule and by whom: red below the level,
    blue above.
    """
    cells = summarise(rows).set_index(["rule", "part", "hospital", "truth"])
    rules = rows["rule"].unique()
    figure, ((axes,),) = panels(1, 1, (12.0, 0.36 * len(rules) + 1.9))
    heading = {"rotation": 40, "ha": "left", "va": "bottom", "fontsize": "small"}
    place = 0.0
    for title, columns in BLOCKS.items():
        middle = place + len(columns) / 2
        for name, *who in columns:
            axes.text(place + 0.5, -0.15, name, **heading)
            for line, rule in enumerate(rules):
                key = (rule, *who)
                _draw_cell(
                    axes, place, line, cells.loc[key] if key in cells.index else None
                )
            place += 1
        axes.text(
            middle, len(rules) + 0.25, title, ha="center", va="top", fontsize="small"
        )
        place += 0.35
    for line, rule in enumerate(rules):
        axes.text(-0.2, line + 0.5, rule, ha="right", va="center")
        size = cells.loc[(rule, HERE, ALL, ALL), "size"]
        axes.text(place + 0.6, line + 0.5, f"{size:.2f}", ha="center", va="center")
    axes.text(place + 0.2, -0.15, "labels in a set", **heading)
    axes.set(xlim=(-4.2, place + 2.6), ylim=(len(rules) + 0.9, -2.4))
    axes.axis("off")
    level = rows["confidence_level"].iloc[0]
    axes.set_title(
        f"Four hospitals, {rows['split'].nunique()} splits into thirds: percent of"
        f" patients covered where {level:.0%} was asked for\n(red: fewer; bold: fewer"
        " by more than three standard errors)"
    )
    return figure


def _draw_cell(axes, x: float, line: int, cell: pd.Series | None) -> None:
    middle = {"x": x + 0.5, "y": line + 0.5, "ha": "center", "va": "center"}
    if cell is None:
        axes.text(s="–", color="0.5", **middle)
        return
    shade = np.clip(
        (cell["coverage"] - cell["confidence_level"] + 0.25) / 0.5, 0.05, 0.95
    )
    look = {"facecolor": COVERAGE_COLOURS(shade), "edgecolor": "none"}
    axes.add_patch(Rectangle((x + 0.03, line + 0.05), 0.94, 0.9, **look))
    weight = "bold" if cell["short"] else "normal"
    axes.text(s=f"{100 * cell['coverage']:.0f}", weight=weight, **middle)


PROBLEM_RULES = {
    "centralised": "one threshold, all scores pooled",
    "each site": "promise to each hospital",
    "by class and site": "threshold for each class and hospital",
}
"""Rules of the first picture of the README, with their labels."""


def draw_problem(cells: pd.DataFrame) -> Figure:
    """Draw the coverage of all patients, of each hospital and of its healthy patients,
    from a summary.
    """
    groups = [("all patients", ALL, ALL)]
    groups += [(f"{name}, all", name, ALL) for name in HOSPITALS]
    groups += [(f"{name}, healthy", name, "healthy") for name in HOSPITALS]
    here = cells[cells["part"] == HERE].set_index(["rule", "hospital", "truth"])
    figure, ((axes,),) = panels(1, 1, (7.2, 3.9))
    places = np.arange(len(groups))[::-1]
    looks = zip(
        PROBLEM_RULES.items(), (VERMILION, GREY, BLUE), ("o", "s", "D"), strict=True
    )
    for (rule, label), colour, marker in looks:
        chosen = here.loc[[(rule, *who) for _, *who in groups]]
        percent = 100 * chosen["coverage"].to_numpy()
        error = 100 * chosen["error"].to_numpy()
        axes.errorbar(
            percent,
            places,
            xerr=error,
            fmt=marker,
            color=colour,
            label=label,
            markersize=6,
        )
        if rule == "centralised":
            for x, y in zip(percent, places, strict=True):
                if x < 80:
                    axes.annotate(
                        f"{x:.0f} %",
                        (x, y),
                        (0, 7),
                        textcoords="offset points",
                        ha="center",
                    )
    axes.axvline(90, color="black", linestyle="--", linewidth=1)
    axes.axhspan(-0.5, len(HOSPITALS) - 0.5, color="0.95", zorder=0)
    axes.set_yticks(places, [name for name, *_ in groups])
    axes.set(
        xlim=(45, 102),
        ylim=(-0.5, len(groups) - 0.5),
        xlabel="patients covered, %; 90 % was asked for",
    )
    figure.legend(loc="outside upper center", ncols=3, fontsize="small")
    return figure
