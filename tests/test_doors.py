"""Every capability through every interface: it works, with the same result, or is
refused with a sentence.

Each pair of the two is a test; ``docs/install.md`` lists the exceptions, and ``python
tests/test_doors.py`` writes the list again.
"""

import dataclasses
import re
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import fedconformal as fc
from fedconformal.cli import main

PAGE = Path(__file__).parent.parent / "docs" / "install.md"
SITES = ("A", "B", "C")
LEVEL = 0.7
EQUAL = dict.fromkeys(SITES, 60)
UNEVEN = {"A": 60, "B": 80, "C": 120}
LABELS = ("adult", "child")
BIG = dict.fromkeys(SITES, 300)
EDGES = fc.Bins.uniform(0, 1, 20)
PRIVACY = fc.Privacy(epsilon=4.0, bins=fc.Bins.uniform(0, 5, 20))
PAPER = fc.Privacy(epsilon=4.0, bins=fc.Bins.uniform(0, 5, 20), analysis="paper")


@dataclasses.dataclass(frozen=True)
class Capability:
    """What is wanted of a federation, and what happens in it."""

    wishes: dict
    labels: bool = False
    private: bool = False
    signed: bool = False
    strict: str | None = None
    silent: str | None = None
    forged: str | None = None
    classes: bool = False
    plain: bool = False
    losses: bool = False

    @property
    def sizes(self):
        return BIG if self.private else self.wishes.get("n_points", UNEVEN)


def counted(labels):
    return {
        label: {site: int((labels[site] == label).sum()) for site in SITES}
        for label in LABELS
    }


LABEL_OF = {
    site: np.where(
        np.random.default_rng(i).random(UNEVEN[site]) < 0.4, "child", "adult"
    )
    for i, site in enumerate(SITES)
}
CAPABILITIES = {
    "equal sites": Capability({"n_points": EQUAL}),
    "uneven sites": Capability({"n_points": UNEVEN}),
    "several levels": Capability(
        {"n_points": UNEVEN, "confidence_level": [0.6, LEVEL]}
    ),
    "several numbers": Capability({"n_points": UNEVEN, "numbers": 3}),
    "criterion marginal": Capability({"n_points": UNEVEN, "criterion": "marginal"}),
    "criterion stable": Capability({"n_points": UNEVEN, "criterion": "stable"}),
    "criterion conditional": Capability(
        {"n_points": UNEVEN, "criterion": "conditional"}
    ),
    "promise mixture": Capability({"n_points": UNEVEN, "promise": "mixture"}),
    "promise each-site": Capability({"n_points": UNEVEN, "promise": "each-site"}),
    "promise new-site, on average": Capability(
        {"n_points": UNEVEN, "promise": "new-site"}
    ),
    "promise new-site, conditional": Capability(
        {
            "n_points": UNEVEN,
            "promise": "new-site",
            "criterion": "conditional",
            "delta": 0.4,
        }
    ),
    "max_faulty": Capability({"n_points": EQUAL, "max_faulty": 1}),
    "groups": Capability({"groups": counted(LABEL_OF)}, labels=True),
    "classes": Capability(
        {"groups": counted(LABEL_OF), "group_by": "class", "score": "lac"},
        labels=True,
        classes=True,
    ),
    "a risk": Capability({"n_points": UNEVEN, "score": "missed-labels"}, classes=True),
    "groups by site": Capability({"n_points": UNEVEN, "group_by": "site"}),
    "private": Capability({"n_points": BIG, "privacy": PRIVACY}, private=True),
    "private, the paper's": Capability(
        {"n_points": BIG, "privacy": PAPER}, private=True
    ),
    "exact curves": Capability(
        {"n_points": UNEVEN, "curve": fc.Bins.uniform(0, 8, 40)}, plain=True
    ),
    "sums of losses": Capability(
        {"n_points": UNEVEN, "curve": EDGES, "parts": 100, "promise": "mixture"},
        plain=True,
        losses=True,
    ),
    "tests of answers": Capability(
        {"n_points": UNEVEN, "curve": EDGES, "starts": 10, "criterion": "conditional"},
        plain=True,
        losses=True,
    ),
    "signed": Capability({"n_points": UNEVEN}, signed=True),
    "a site's policy": Capability({"n_points": EQUAL}, strict="C"),
    "a missing site": Capability({"n_points": EQUAL}, silent="C"),
    "a refused report": Capability({"n_points": EQUAL}, forged="C"),
}


# What a door does not do, and why. The planner makes plans; what happens to reports is
# the desk's matter.
HERE = "all rows are in one place, where the reports are made"
SINGLE = "one at a time; the command line takes several"
SAME = "plans do not change by it"
FILES = "given to the command line"
RISK = "FederatedRiskController controls risks"
REFUSED = {
    ("signed", "estimator"): HERE,
    ("a site's policy", "estimator"): HERE,
    ("a missing site", "estimator"): HERE,
    ("a refused report", "estimator"): HERE,
    ("a risk", "estimator"): RISK,
    ("sums of losses", "estimator"): RISK,
    ("tests of answers", "estimator"): RISK,
    ("several levels", "planner"): SINGLE,
    ("groups", "planner"): SINGLE,
    ("classes", "planner"): SINGLE,
    ("groups by site", "planner"): SINGLE,
    ("sums of losses", "planner"): FILES,
    ("tests of answers", "planner"): FILES,
    ("a site's policy", "planner"): SAME,
    ("a refused report", "planner"): SAME,
}


# -- what everybody has ----------------------------------------------------------------


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """For each capability the plan, the keys and the ledgers, made once, and what
    Python gives.
    """
    return cache(
        lambda name: Round(CAPABILITIES[name], tmp_path_factory.mktemp("door"))
    )


def ledger_at(folder, site):
    ledger = fc.Ledger.create(folder / f"{site}.db")
    ledger.set_budget("calibration", 4.0)
    return ledger


class Round:
    """One round of one capability: the same plan, data, keys and ledgers for all
    doors.
    """

    def __init__(self, capability, folder):
        self.it, self.folder = capability, folder
        self.keys = (
            {site: fc.SigningKey.new() for site in SITES} if capability.signed else {}
        )
        wishes = {"confidence_level": LEVEL, **capability.wishes}
        if self.keys:
            wishes["keys"] = {site: key.public_key for site, key in self.keys.items()}
        self.wishes = wishes
        self.plan = fc.plan(**wishes)
        assert self.plan.feasible
        self.data = {site: self._scores(i, site) for i, site in enumerate(SITES)}
        self.given = (
            {site: self._losses(site) for site in SITES} if capability.losses else {}
        )
        self.ledgers = (
            {site: ledger_at(folder, site) for site in SITES}
            if capability.private
            else {}
        )
        self.policies = (
            {capability.strict: fc.SitePolicy(private_only=True)}
            if capability.strict
            else {}
        )
        if capability.plain:
            self.policies = dict.fromkeys(SITES, fc.SitePolicy(curves="plain"))
        self.other = fc.plan(n_points=EQUAL, confidence_level=0.9)
        self.expected = self.calibrated(self.reports())

    def _scores(self, i, site):
        drawn = np.random.default_rng(i).gamma(2.0, size=self.it.sizes[site])
        return np.minimum(drawn / 10, 0.999) if self.it.classes else drawn

    def _losses(self, site):
        """The loss of each case at each edge, or for answers confidences and whether
        each is wrong.
        """
        confidence = self.data[site] / 10
        if "starts" in self.it.wishes:
            return {
                "scores": confidence,
                "losses": (np.arange(len(confidence)) % 5 == 0).astype(float),
            }
        return {
            "losses": np.maximum(
                0, 1 - np.array(EDGES.edges) / confidence[:, np.newaxis]
            )
        }

    @property
    def answering(self):
        asked = SITES if self.plan.is_grouped else self.plan.designs[0].asked_names
        return [site for site in asked if site not in (self.it.silent, self.it.strict)]

    def report(self, site, plan=None):
        plan = self.plan if plan is None else plan
        options = {"groups": LABEL_OF[site]} if self.it.labels else {}
        if self.keys:
            options["key"] = self.keys[site]
        if self.ledgers:
            options |= {"ledger": self.ledgers[site], "dataset": "calibration"}
        given = self.given[site] if self.given else {"scores": self.data[site]}
        return fc.report(
            plan, **given, site=site, policy=self.policies.get(site), **options
        )

    def reports(self):
        return [
            self.report(site, self.other if site == self.it.forged else None)
            for site in self.answering
        ]

    def calibrated(self, reports):
        return fc.calibrate(self.plan, reports, on_refused="skip")


def thresholds(calibration):
    return [part.thresholds for part in calibration.parts]


def same(found, expected):
    """The same thresholds from the same answers; who sent what is refused may be told
    in other words.
    """
    assert found.plan == expected.plan
    assert thresholds(found) == thresholds(expected)
    assert found.missing == expected.missing
    assert found.n_answers == expected.n_answers
    assert found.parts == expected.parts
    assert len(found.refused) == len(expected.refused)


# -- doors -----------------------------------------------------------------------------


def through_python(round_):
    if round_.it.strict:
        with pytest.raises(fc.PolicyError, match="private_only"):
            round_.report(round_.it.strict)
    same(round_.calibrated(round_.reports()), round_.expected)
    is_whole = not (
        round_.keys or round_.it.silent or round_.it.strict or round_.it.forged
    )
    if (
        is_whole and round_.plan.terms.round is None and not round_.given
    ):  # cases drawn at random need the plan's own round
        options = {
            key: value
            for key, value in round_.wishes.items()
            if key not in ("n_points", "groups")
        }
        groups, ledgers = LABEL_OF if round_.it.labels else None, round_.ledgers or None
        alone = fc.conformalize(
            round_.data, groups=groups, ledgers=ledgers, min_group=5, **options
        )
        assert thresholds(alone) == thresholds(round_.expected)


def through_files(round_, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(round_.plan.to_json())
    Path("other.json").write_text(round_.other.to_json())
    for site in SITES:
        site_files(round_, site, tmp_path)
        rows = [f"{value!r}" for value in round_.data[site].tolist()]
        if round_.it.labels:
            rows = [
                f"{row},{label}"
                for row, label in zip(rows, LABEL_OF[site], strict=True)
            ]
        header = "score,label" if round_.it.labels else "score"
        Path(f"{site}.csv").write_text("\n".join([header, *rows]) + "\n")
        if round_.given:
            np.save(f"{site}.npy", np.column_stack(list(round_.given[site].values())))
    for site in round_.answering:
        plan = "other.json" if site == round_.it.forged else "plan.json"
        cases = f"{site}.npy" if round_.given else f"{site}.csv"
        assert main(["report", plan, cases, *file_options(round_, site)]) == 0
    if round_.it.strict:
        order = [
            "report",
            "plan.json",
            "C.csv",
            "--site",
            "C",
            "--policy",
            "strict.toml",
            "-o",
            "C.json",
        ]
        assert main(order) == 2
        assert "private_only" in capsys.readouterr().err
    files = [f"{site}.json" for site in round_.answering]
    skip = ["--skip-refused"] if round_.it.forged else []
    assert (
        main(["calibrate", "plan.json", *files, *skip, "-o", "calibration.json"]) == 0
    )
    same(fc.Calibration.read("calibration.json"), round_.expected)


def file_options(round_, site):
    column = [] if round_.given else ["--column", "score"]
    options = ["--site", site, *column, "-o", f"{site}.json", "--yes"]
    if round_.it.labels:
        options += ["--group", "label"]
    if round_.keys:
        options += ["--sign-with", f"{site}.pem"]
    if round_.ledgers:
        options += [
            "--ledger",
            str(round_.folder / f"{site}.db"),
            "--dataset",
            "calibration",
        ]
    if round_.it.plain:
        options += ["--policy", "plain.toml"]
    return options


def through_estimator(round_, tmp_path):
    pytest.importorskip("sklearn", reason="the extra [sklearn] is not installed")
    options = {
        key: value
        for key, value in round_.wishes.items()
        if key not in ("n_points", "groups", "score")
    }
    sites = np.repeat(SITES, [len(round_.data[site]) for site in SITES])
    y = np.concatenate(list(round_.data.values()))
    if round_.it.classes:
        return classified(round_, options, sites)
    groups = np.concatenate(list(LABEL_OF.values())) if round_.it.labels else None
    model = fc.FederatedConformalRegressor(fitted(), **options)
    ledgers = (
        {"ledgers": {site: ledger_at(tmp_path, site) for site in SITES}}
        if round_.ledgers
        else {}
    )
    model.conformalize(np.zeros((len(y), 1)), y, sites=sites, groups=groups, **ledgers)
    found = model.calibration_
    assert [design.message for design in found.plan.designs] == [
        d.message for d in round_.plan.designs
    ]
    if (
        round_.plan.terms.round is None and not round_.ledgers
    ):  # else other cases or noise are drawn
        assert thresholds(found) == thresholds(round_.expected)


def fitted():
    from sklearn.dummy import DummyRegressor

    return DummyRegressor(strategy="constant", constant=0.0).fit(
        np.zeros((2, 1)), np.zeros(2)
    )


def classified(round_, options, sites):
    """A classifier whose probability of the true class is 1 - score."""
    from sklearn.base import BaseEstimator, ClassifierMixin

    class Known(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.array(LABELS)
            return self

        def predict_proba(self, X):
            return X

        def predict(self, X):
            return self.classes_[np.argmax(X, axis=1)]

    truth = np.concatenate(list(LABEL_OF.values()))
    wrong = np.concatenate(list(round_.data.values()))
    is_child = truth == "child"
    X = np.column_stack(
        [np.where(is_child, wrong, 1 - wrong), np.where(is_child, 1 - wrong, wrong)]
    )
    model = fc.FederatedConformalClassifier(Known().fit(X, truth), **options)
    found = model.conformalize(X, truth, sites=sites).calibration_
    assert [design.message for design in found.plan.designs] == [
        d.message for d in round_.plan.designs
    ]
    for label in LABELS:
        assert found[label].threshold == pytest.approx(
            round_.expected[label].threshold, abs=1e-12
        )


def site_files(round_, site, folder):
    """What a site's own configuration names: its key, ledger and policy."""
    if round_.keys:
        (folder / f"{site}.pem").write_bytes(round_.keys[site].to_pem())
        (folder / f"{site}.pem").chmod(0o600)
    (folder / "strict.toml").write_text("private_only = true\n")
    (folder / "plain.toml").write_text('curves = "plain"\n')


def answers_of(round_, site):
    if round_.given:
        return round_.given[site]
    if round_.it.classes:
        return {
            "scores": round_.data[site],
            "groups": LABEL_OF[site],
            "score": round_.wishes["score"],
        }
    return (
        (round_.data[site], LABEL_OF[site]) if round_.it.labels else round_.data[site]
    )


def through_flower(round_, tmp_path):
    pytest.importorskip("flwr", reason="the extra [flower] is not installed")
    from flower_grid import LocalGrid
    from flwr.app import ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp

    nodes = []
    for site in SITES:
        if site == round_.it.silent:
            continue
        site_files(round_, site, tmp_path)
        app, config = ClientApp(), {"site": site}
        fc.flower.add_conformal(
            app, lambda context, site=site: answers_of(round_, site)
        )
        if round_.keys:
            config["signing-key"] = str(tmp_path / f"{site}.pem")
        if round_.ledgers:
            config |= {
                "ledger": str(round_.folder / f"{site}.db"),
                "dataset": "calibration",
            }
        if site == round_.it.strict or round_.it.plain:
            config["policy"] = str(
                tmp_path / ("plain.toml" if round_.it.plain else "strict.toml")
            )
        nodes.append((app, config))

    def tamper(replies):
        if not round_.it.forged:
            return replies
        kept = [reply for reply in replies if reply.metadata.src_node_id != 102]
        forged = RecordDict(
            {
                "conformal": ConfigRecord(
                    {"report": round_.report("C", round_.other).to_json(indent=None)}
                )
            }
        )
        (question,) = [m for m in grid.sent if m.metadata.dst_node_id == 102]
        return [*kept, Message(forged, reply_to=question)]

    grid = LocalGrid(nodes, tamper=tamper)
    same(fc.flower.calibrate(grid, round_.plan, timeout=60, wait=0), round_.expected)


def through_flare(round_, tmp_path):
    pytest.importorskip("nvflare", reason="the extra [nvflare] is not installed")
    from flare_engine import LocalFlare, Scores

    from fedconformal.nvflare import ConformalController, calibrate

    def tamper(name, result):
        if name == round_.it.forged:
            result.update(report=round_.report(name, round_.other).to_json(indent=None))
        return None if name == round_.it.silent else result

    federation = LocalFlare(
        tmp_path,
        {site: Scores(answers_of(round_, site)) for site in SITES},
        tamper=tamper,
    )
    for site in SITES:
        local = federation.local(site)
        site_files(round_, site, local)
        lines = [f'signing_key = "{site}.pem"'] if round_.keys else []
        if round_.ledgers:
            lines += [
                f'ledger = "{round_.folder / site}.db"',
                'dataset = "calibration"',
            ]
        if site == round_.it.strict or round_.it.plain:
            lines += [f'policy = "{"plain" if round_.it.plain else "strict"}.toml"']
        (local / "fedconformal.toml").write_text("".join(f"{line}\n" for line in lines))
    controller = ConformalController(round_.plan)
    controller.set_communicator(federation)
    same(
        calibrate(controller, round_.plan, federation.fl_ctx, timeout=2),
        round_.expected,
    )


def through_verify(round_):
    reports = round_.reports()
    counted_again = fc.audit.verify(round_.expected, reports=reports)
    assert [
        finding.claim for finding in counted_again if finding.holds is not True
    ] == []


def through_certificate(round_):
    from reading import Reader

    page = Reader(fc.pages.certificate(round_.expected)).text
    assert all(
        repr(threshold) in page
        for each in thresholds(round_.expected)
        for threshold in each
    )


def through_planner(round_):
    from fedconformal.pages._planner import make_plan, solve
    from fedconformal.pages._question import PlanQuestion

    sizes = list(round_.it.sizes.values())
    wishes = {
        k: v
        for k, v in round_.wishes.items()
        if k not in ("n_points", "privacy", "curve", "keys")
    }
    if round_.keys:
        wishes |= {
            "names": SITES,
            "keys": "\n".join(
                f"{site}={it.public_key}" for site, it in round_.keys.items()
            ),
        }
    missing = {"missing": 1} if round_.it.silent else {}
    privacy = {}
    if asked := round_.wishes.get("privacy"):
        grid = {"bins": 20, "low": 0.0, "high": 5.0}
        privacy = {"privacy": {"epsilon": 4.0, "analysis": asked.analysis, **grid}}
    if round_.it.plain:
        privacy = {"curve": {"bins": 40, "low": 0.0, "high": 8.0}}
    question = PlanQuestion.model_validate(
        {"points": tuple(sizes), **wishes, **missing, **privacy}
    )
    found = make_plan(question)
    assert found.designs[0].message == round_.plan.designs[0].message
    assert found.server_rank == round_.plan.server_rank
    assert found.keys == round_.plan.keys
    if round_.it.silent:
        assert solve(
            PlanQuestion(points=tuple(sizes), confidence_level=LEVEL, missing=1)
        ).is_feasible


def through_desk(round_, tmp_path):
    """The folder of the planner, with a plan that was made elsewhere."""
    from fedconformal.pages._worker import answer

    (tmp_path / "plan.json").write_text(round_.plan.to_json())
    for report in round_.reports():
        assert answer("receive", report.to_json().encode(), {}, tmp_path).status == 200
    shown = answer("calibrate", b"{}", {}, tmp_path)
    same(fc.Calibration.read(tmp_path / "calibration.json"), round_.expected)
    assert all(
        repr(threshold) in shown.text
        for each in thresholds(round_.expected)
        for threshold in each
    )


DOORS = {
    "Python": lambda round_, **_: through_python(round_),
    "files": through_files,
    "estimator": lambda round_, tmp_path, **_: through_estimator(round_, tmp_path),
    "Flower": lambda round_, tmp_path, **_: through_flower(round_, tmp_path),
    "FLARE": lambda round_, tmp_path, **_: through_flare(round_, tmp_path),
    "verify": lambda round_, **_: through_verify(round_),
    "certificate": lambda round_, **_: through_certificate(round_),
    "planner": lambda round_, **_: through_planner(round_),
    "desk": lambda round_, tmp_path, **_: through_desk(round_, tmp_path),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", CAPABILITIES)
def test_every_capability_through_every_door(
    name, door, world, tmp_path, monkeypatch, capsys
):
    """It works with the same result; or the door has no way to ask for it, as the table
    says.
    """
    if (name, door) in REFUSED:
        cannot_be_asked(CAPABILITIES[name], door)
        return
    DOORS[door](world(name), tmp_path=tmp_path, monkeypatch=monkeypatch, capsys=capsys)


def cannot_be_asked(capability, door):
    """A door without the argument: asking for it is an error, not silence."""
    if door == "estimator":
        import inspect

        taken = set(
            inspect.signature(fc.FederatedConformalRegressor.conformalize).parameters
        )
        taken |= set(
            inspect.signature(fc.FederatedConformalRegressor.__init__).parameters
        )
        assert taken.isdisjoint(
            {"keys", "key", "policy", "policies", "missing", "reports"}
        )
        return
    from fedconformal.pages._question import PlanQuestion

    fields = {**capability.wishes, "policy": {}, "reports": []}
    own = {k: v for k, v in fields.items() if k not in ("n_points", "score")}
    with pytest.raises(ValueError, match=r"Extra inputs|valid number"):
        PlanQuestion.model_validate({"points": (60, 80, 120), **own})


# -- the table -------------------------------------------------------------------------


def table():
    """Return a table of the exceptions with their reasons."""
    reasons = dict.fromkeys((door, reason) for (_, door), reason in REFUSED.items())
    names = {
        (door, why): ", ".join(
            name
            for (name, own), reason in REFUSED.items()
            if (own, reason) == (door, why)
        )
        for door, why in reasons
    }
    rows = [f"| {name} | {door} | {reason} |" for (door, reason), name in names.items()]
    head = ["| capability | not through | reason |", "|---|---|---|"]
    return "\n".join([*head, *rows])


MARKS = re.compile(
    r"(?<=<!-- doors: begin -->\n).*?(?=\n<!-- doors: end -->)", re.DOTALL
)


def test_the_page_has_this_table():
    assert MARKS.search(PAGE.read_text())[0] == table()


if __name__ == "__main__":
    PAGE.write_text(MARKS.sub(lambda _: table(), PAGE.read_text()))
    sys.exit(0)
