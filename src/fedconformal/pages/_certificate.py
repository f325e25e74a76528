"""The certificate of a calibration: one HTML page for people who never open a terminal."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import messages, scores
from fedconformal._extras import MissingExtraError
from fedconformal._text import count, floor_percent, nearest_percent, percent
from fedconformal._version import __version__
from fedconformal.audit import Finding, verify
from fedconformal.documents import Calibration, Check, Design, Document, Facts, Plan
from fedconformal.monitoring import WatchRow, cases_needed, plan_watch, watch
from fedconformal.monitoring._check import SiteCheck, assess
from fedconformal.pages._claims import Budget, Claim, count_law_numbers, first_names
from fedconformal.pages._planner import USUAL_CASES
from fedconformal.pages._render import read_asset, render, watch_picture
from fedconformal.planning import CRITERIA, PROMISES
from fedconformal.protocol import AssumptionKind, assumption_codes, assumption_sentences, loss_curve

_MOST_SHARES = 20
_MOST_ANSWERED = 12  # of which the first page has names; the table has more
_MOST_CLASSES = 8  # that are columns of a table
_DETAILS = ("supersedes", "plans_tried", "several_cases", "prevalence")  # not on the first page
_DROPS = (0.05, 0.1)  # of the coverage, for which the certificate says how many cases detect them


class UnverifiedError(ValueError):
    """A calibration that gets no certificate, because a claim of it was not verified."""


def certificate(
    calibration: Calibration,
    *,
    checks: Sequence[Check] = (),
    facts: Mapping[str, str] | None = None,
    sets: ArrayLike | None = None,
    allow_unverified: bool = False,
) -> str:
    """Return a page that says what a calibration promises.

    The claim is verified first, by independent code. The page carries the calibration itself, so that whoever
    holds it can verify it. It needs Jinja2, which comes with the extras ``cli`` and ``web``.

    Parameters
    ----------
    calibration : Calibration
        With groups of cases or without.
    checks : sequence of Check
        Findings of sites on later cases; where they have periods, the page shows the `watch`.
    facts : mapping from str to str, optional
        Facts beside those of the plan: ``name`` of the model, ``purpose``, ``date`` and so on, as in the
        terms of `plan`.
    sets : array-like, optional
        Prediction sets of cases like those it is meant for, as `Calibration.predict_interval` and
        `Calibration.predict_set` return them: the page then says how large they are.
    allow_unverified : bool
        Write the page although a claim cannot be verified; its headline then says NOT VERIFIED.

    Returns
    -------
    str
        HTML without scripts or anything from elsewhere.

    Raises
    ------
    ValueError
        If a claim does not hold or cannot be verified, checks are of another calibration, facts contradict
        the plan's, or sets do not have its levels.
    MissingExtraError
        If Jinja2 is not installed.

    Examples
    --------
    >>> import fedconformal as fc
    >>> chosen = fc.plan(n_sites=3, n_points=19)
    >>> reports = [fc.report(chosen, range(19), site=name) for name in "ABC"]
    >>> fc.pages.certificate(fc.calibrate(chosen, reports)).splitlines()[0]
    '<!doctype html>'
    """
    findings = verify(calibration)
    for verdict in (False,) if allow_unverified else (False, None):
        if wrong := next((finding for finding in findings if finding.holds is verdict), None):
            raise UnverifiedError(
                "this calibration gets no certificate, "
                f"{'a claim cannot be verified' if verdict is None else 'its claim does not hold'}: "
                f"{wrong.claim}: {wrong.detail}"
            )
    all_facts = (calibration.plan.terms.facts or Facts()).with_more(facts or {})
    view = CertificateView(calibration, findings, all_facts, checks, sets)
    style = "\n".join(map(read_asset, ("common.css", "certificate.css")))
    return render("certificate.html", view=view, style=style, version=__version__)


class CertificateView:
    """Values of a certificate: a calibration, the auditor's findings, facts, later checks, and sets."""

    def __init__(
        self,
        calibration: Calibration,
        findings: Sequence[Finding],
        facts: Facts,
        checks: Sequence[Check] = (),
        sets: ArrayLike | None = None,
    ) -> None:
        self.calibration, self.plan, self.findings = calibration, calibration.plan, findings
        self.not_verified = [finding for finding in findings if finding.holds is None]
        self.facts, has_periods = facts, any(check.period for check in checks)
        self.watch = watch(calibration, checks) if has_periods else None
        self.assessment = assess(calibration, list(checks)) if checks and not has_periods else None
        budget = Budget()
        self.claims = [Claim(calibration, part, budget) for part in calibration.parts]
        self.levels = [level for claim in self.claims for level in claim.levels]
        self.finite_levels = [level for level in self.levels if level.is_finite]
        finite = [level.claim for level in self.finite_levels]
        self.promises = list(dict.fromkeys((claim.promise, claim.criterion) for claim in finite))
        self.has_votes = any(claim.has_votes for claim in self.claims)
        self.unit = (self.plan.terms.facts or Facts()).unit or ""
        self.score = self._known_score()
        self.has_label_score = isinstance(self.score, scores.LabelScore)
        self.has_loss_score = isinstance(self.score, scores.LossScore)
        self.kind, curve = "losses" if self.has_loss_score else "sets", loss_curve(self.plan)
        if curve is not None:
            self.kind = "sums" if curve.starts is None else "answers"
        losses = [messages.of(design.message).epsilon(design) for design in self.plan.designs]
        self.epsilon = max((float(loss) for loss in losses if loss is not None), default=None)
        self.sizes = None if sets is None else _set_sizes(sets, self.plan.confidence_levels)

    def _known_score(self) -> scores.Score | None:
        """Return the score of the plan; None where it names none, or one that is not installed here."""
        if self.plan.score is None:
            return None
        try:
            return scores.from_name(self.plan.score.name, **self.plan.score.parameters)
        except (TypeError, ValueError):
            return None

    @property
    def headlines(self) -> list[str]:
        """Sentences of all promises with a finite threshold, with how many groups each is for."""
        promised = Counter(
            (level.claim.promise, level.claim.criterion, level.level, level.claim.delta)
            for level in self.finite_levels
        )
        return [
            promise.sentence(criterion, level, delta, self._in_groups(n_groups), self.claims[0].words)
            for (promise, criterion, level, delta), n_groups in promised.items()
        ]

    def _in_groups(self, n_groups: int) -> str:
        if not self.plan.is_grouped:
            return ""
        if len(self.claims) == 1:
            return f" of the {self.claims[0].group}"
        groups = self.plan.grouping.counted(len(self.claims))
        return f" in each of {groups}" if n_groups == len(self.claims) else f" in {n_groups} of {groups}"

    @property
    def shares(self) -> list[str] | None:
        """Shares of a mixture, "north 50 %", empty if they are many or unnamed; None without a mixture."""
        shares = None if self.plan.is_grouped else self.plan.mixture
        if shares is None:
            return None
        if not isinstance(shares, dict) or len(shares) > _MOST_SHARES:
            return []
        return [f"{site} {nearest_percent(float(share))}" for site, share in shares.items()]

    # -- facts, sites and assumptions ----------------------------------------------------------------------

    def fact_rows(self, *, details: bool) -> list[tuple[str, str, bool]]:
        """Return title and text of facts, and whether each was added to the page and is not in the plan."""
        planned = (self.plan.terms.facts or Facts()).given.keys() | {"date"}
        facts = sorted(self.facts.given.items(), key=lambda fact: fact[0] != "purpose")
        return [
            (Facts.model_fields[name].title or name, text, name not in planned)
            for name, text in facts
            if (name in _DETAILS) == details
        ]

    @property
    def not_stated(self) -> list[str]:
        """Titles of the facts that are missing, and of the sizes of sets where no sets were given."""
        known = self.facts.given.keys() | {"unit"} | ({"prevalence"} if self.prevalence else set())
        names = [name for name in Facts.model_fields if name not in known]
        titles = [(Facts.model_fields[name].title or name).lower() for name in names]
        return titles + ["sizes of the sets"] * (self.sizes is None)

    def named_sizes(self, names: Iterable[str]) -> str:
        """Return "north (120 cases) and south (40 cases)": cases in all groups, answered or else planned."""
        sizes: Counter[str] = Counter()
        for claim in self.claims:
            designs = claim.planned, claim.design
            sizes.update({name: kind.n for design in designs for kind in design.kinds for name in kind.names})
        listed = [
            f"{name} ({count(sizes[name], 'case')})" if name in sizes else name for name in sorted(names)
        ]
        return first_names(listed)

    @property
    def answered(self) -> str:
        """Names and sizes of the sites that answered, unless they are many."""
        sites = {received.site for received in self.calibration.reports}
        return self.named_sizes(sites) if len(sites) <= _MOST_ANSWERED else ""

    @property
    def sent(self) -> list[str]:
        """Descriptions of what sites sent, as their messages give them; each once."""
        return list(dict.fromkeys(sent for claim in self.claims for sent in claim.sent.values()))

    def assumptions(self, kind: str) -> tuple[str, ...]:
        """Return the sentences that follow from the plan and from who answered, whatever the file says."""
        codes = {"assumptions": assumption_codes(self.plan, self.calibration.n_missing)}
        return assumption_sentences(self.calibration.model_copy(update=codes), AssumptionKind[kind])

    # -- later checks --------------------------------------------------------------------------------------

    def check_rows(self, *, by_group: bool) -> list[list[str]]:
        """Return the findings on later cases of each site, or of each group of its cases."""
        chosen = [row for row in self._whole_sites if not by_group]
        if by_group and self.assessment:
            chosen = [row for row in self.assessment.rows if row not in self._whole_sites]
        return [
            [
                row.name,
                percent(row.check.confidence_level),
                f"{row.check.covered:,} of {row.check.n:,}{'' if row.epsilon is None else ' (private)'}",
                nearest_percent(row.check.coverage),
                "{:.1%} to {:.1%}".format(*row.check.interval).replace("%", " %"),
                row.verdict,
            ]
            for row in chosen
        ]

    @property
    def _whole_sites(self) -> list[SiteCheck]:
        """Findings on all cases of a site, or on its groups where there is none on all."""
        rows = self.assessment.rows if self.assessment else ()
        whole = {row.site for row in rows if row.group is None}
        return [row for row in rows if row.group is None or row.site not in whole]

    @property
    def check_totals(self) -> list[tuple[float, int, int]]:
        """Level, later cases of all sites, and how many of them were covered."""
        n, covered = Counter[float](), Counter[float]()
        for row in self._whole_sites:
            n[row.check.confidence_level] += row.check.n
            covered[row.check.confidence_level] += row.check.covered
        return [(level, n[level], covered[level]) for level in n]

    @property
    def check_plan(self) -> list[list[float]]:
        """Level, then lower coverages, each with the new cases with which a check detects it."""
        if self.kind == "answers" or (self.kind == "sums" and self.score is None):
            return []  # no score can be checked
        levels = sorted({level.level for level in self.finite_levels if level.level > max(_DROPS)})[:4]
        lower = {level: [round(level - drop, 9) for drop in _DROPS] for level in levels}
        return [[level, *chain(*((x, cases_needed(level, x)) for x in lower[level]))] for level in levels]

    @property
    def watch_rows(self) -> list[WatchRow]:
        """Findings of the watch: all sites together, then alarms, then the others."""
        rows = self.watch.rows if self.watch else ()
        return sorted(rows, key=lambda row: (row.site is not None, row.alarm is None))

    def watch_cells(self, most: int) -> list[list[str]]:
        """Return the first rows of the table of the watch."""
        return [
            [
                row.name,
                percent(row.confidence_level),
                f"{row.covered:,} of {row.n:,}",
                nearest_percent(row.coverage),
                floor_percent(row.lower),
                row.verdict,
            ]
            for row in self.watch_rows[:most]
        ]

    def watch_picture(self, row: WatchRow, place: int) -> str:
        """Draw coverage and evidence of a row over time."""
        return watch_picture(row, f"watch-{place}")

    @property
    def watch_plan(self) -> list[str]:
        """Sentences about how soon a drop is found with as many cases as sites sent, or with 50 each."""
        if self.plan.is_grouped:
            return []
        cases = [point.n for row in self.watch_rows if row.site is not None for point in row.points]
        number = max(1, sum(cases) // len(cases)) if cases else USUAL_CASES
        levels = sorted({level.level for level in self.finite_levels if level.level > max(_DROPS)})[:2]
        plans = [plan for level in levels for plan in plan_watch(self.calibration[level], number)]
        return [plan.sentence() for plan in plans]

    # -- tables --------------------------------------------------------------------------------------------

    @property
    def prevalence(self) -> tuple[list[str], list[list[str]]] | None:
        """Classes, and by site the cases and the share of each; None without classes, or if they are many."""
        by_site: dict[str, Counter[str]] = {}
        for claim in self.claims if self.plan.grouping.by_class else ():
            _, label = self.plan.grouping.parts_of(claim.label)
            for kind in claim.design.kinds:
                for name in kind.names:
                    by_site.setdefault(name, Counter())[label or ""] += kind.n
        classes = list(dict.fromkeys(label for counts in by_site.values() for label in counts))
        if not 0 < len(classes) <= _MOST_CLASSES:
            return None
        return classes, [
            [
                site,
                f"{counts.total():,}",
                *(nearest_percent(counts[name] / counts.total()) for name in classes),
            ]
            for site, counts in sorted(by_site.items())
        ]

    @property
    def sensitivity_rows(self) -> list[list[str]]:
        """Mean coverages if one site differs, level by level."""
        return [
            [
                *([level.claim.label] if level.claim.label else []),
                percent(level.level),
                *map(floor_percent, shares),
            ]
            for level in self.finite_levels
            if (shares := level.sensitivity)
        ]

    @property
    def group_rows(self) -> list[list[str]]:
        """Answers, cases and missing sites of each group."""
        return [
            [
                claim.label,
                f"{claim.n_answers:,}",
                f"{claim.n_points:,}",
                f"{claim.part.n_missing:,}",
                first_names(claim.part.missing) or ("not named" if claim.part.n_missing else "none"),
                claim.names_not_asked or ("not named" if claim.n_not_asked else "none"),
            ]
            for claim in self.claims
        ]

    @property
    def answer_rows(self) -> list[list[str]]:
        """Answer of each site: by group, or with the digest of its report where there are no groups."""
        rows = ((claim, row) for claim in self.claims for row in claim.answer_rows(votes=self.has_votes))
        if self.plan.is_grouped:
            return [[claim.label, *row] for claim, row in rows]
        return [[*row, self.digests.get(row[0], "")] for _, row in rows]

    @property
    def digests(self) -> dict[str, str]:
        """Beginning of the digest of the report that counted, by site."""
        reports = self.calibration.reports
        return {received.site: received.report.removeprefix("sha256:")[:12] for received in reports}

    @property
    def encoded(self) -> str:
        """The calibration itself, in base 64."""
        return base64.b64encode((self.calibration.to_json() + "\n").encode()).decode()


def _set_sizes(sets: ArrayLike, levels: Sequence[float]) -> dict[str, Any]:
    """Return headers and rows of a table of the sizes of sets, level by level: labels, or widths."""
    array = np.asarray(sets)
    array = array[:, :, np.newaxis] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[2] != len(levels) or array.size == 0:
        raise ValueError(
            f"sets must have the shape (cases, labels or 2, levels) with {count(len(levels), 'level')}, got "
            f"{np.shape(sets)}"
        )
    has_labels, by_level = array.dtype == bool, list(zip(levels, np.moveaxis(array, 2, 0), strict=True))
    if not has_labels and array.shape[1] != 2:
        raise ValueError(f"sets of numbers must have a lower and an upper end, got shape {np.shape(sets)}")
    n, rows = len(array), []
    if has_labels:
        most = min(array.shape[1], _MOST_CLASSES)
        headers = ["no label", "1 label", *(f"{k} labels" for k in range(2, most + 1))]
        headers[-1] += " or more" * (array.shape[1] > most)
        for level, chosen in by_level:
            counts = np.bincount(np.minimum(chosen.sum(axis=1), most), minlength=most + 1)
            rows.append([percent(level), *(f"{size:,}" for size in counts)])
    else:
        headers = ["infinite", "empty", "a quarter up to", "half up to", "19 of 20 up to"]
        for level, ends in by_level:
            widths = ends[:, 1] - ends[:, 0]
            infinite, empty = np.isposinf(widths), ~(widths >= 0)
            shares = np.quantile(np.where(empty, 0.0, widths), (0.25, 0.5, 0.95), method="higher")
            figures = ["infinite" if width == np.inf else f"{width:.4g}" for width in shares]
            rows.append([percent(level), f"{infinite.sum():,}", f"{empty.sum():,}", *figures])
    return {"n": n, "has_labels": has_labels, "headers": headers, "rows": rows}


# -- views of plans and calibrations in notebooks ----------------------------------------------------------


_MOST_GROUPS = 50


def notebook_view(document: Document) -> str | None:
    """Return what a notebook shows of a plan or a calibration.

    Parameters
    ----------
    document : Document
        A plan, or a calibration: then the first section of its certificate.

    Returns
    -------
    str or None
        HTML without scripts; None for other documents and where Jinja2 is not installed: then a line of text
        is shown.
    """
    style = read_asset("notebook.css")
    try:
        if isinstance(document, Plan):
            return _plan_view(document, style)
        if isinstance(document, Calibration):
            findings = verify(document)
            wrong = next((finding for finding in findings if finding.holds is False), None)
            view = CertificateView(document, findings, Facts())
            return render("notebook.html", plan=None, style=style, view=view, wrong=wrong)
    except MissingExtraError:
        pass
    return None


def _plan_view(plan: Plan, style: str) -> str:
    """Return the promises, votes and mean coverages of a plan, and what stands in the way."""
    designs = plan.designs[:_MOST_GROUPS]
    budget = Budget()
    pairs = [(design.group, row) for design in designs for row in _rows(design, budget)]
    return render(
        "notebook.html",
        plan=plan,
        style=style,
        promises=promise_sentences(plan, designs),
        headers=["group"] * plan.is_grouped + ["level", "sites", "votes needed", "mean coverage"],
        rows=[[group, *row] if plan.is_grouped else row for group, row in pairs],
        most_groups=_MOST_GROUPS,
        notes=plan.notes if budget.has_sufficed and designs == plan.designs else plan.problems,
    )


def promise_sentences(plan: Plan, designs: Iterable[Design]) -> list[tuple[float, str]]:
    """Return each level with the sentence of its promise, empty where no threshold is finite; each once."""
    promised: dict[tuple[float, str], None] = {}
    for design in designs:
        promise, criterion = PROMISES[design.promise](), CRITERIA[design.criterion]()
        delta = None if design.delta is None else float(design.delta)
        where, claim = " in each group" if plan.is_grouped else "", messages.claim(design, plan.score)
        for level in design.levels:
            asked = float(level.confidence_level)
            sentence = promise.sentence(criterion, asked, delta, where, claim) if level.advice is None else ""
            promised[asked, sentence] = None
    return list(promised)


def _rows(design: Design, budget: Budget) -> Iterator[list[str]]:
    sites = "any" if design.n_sites is None else f"{design.n_sites:,}"
    for place, level in enumerate(design.levels):
        votes, mean = "open" if level.votes is None else f"{level.votes:,}", _mean(design, place, budget)
        figures = [votes, mean] if level.advice is None else ["none", "–"]  # nothing that looks like success
        yield [percent(float(level.confidence_level)), sites, *figures]


def _mean(design: Design, place: int, budget: Budget) -> str:
    """Return the mean coverage, or the bound of it that is guaranteed; empty while it is unknown."""
    if not design.is_open and not budget.allows(count_law_numbers(design, place)):
        return "not computed"
    law = messages.law(design, place)
    if law is not None:
        return f"{'≥ ' if messages.of(design.message).is_bound(design) else ''}{law.mean():.4f}"
    guarantee = messages.guarantee(design, place)
    return "" if guarantee is None or guarantee.mean is None else f"≥ {guarantee.mean:.4f}"
