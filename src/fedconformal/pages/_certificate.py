"""The certificate of a calibration: one HTML page for people who never open a
terminal.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fedconformal import messages, scores
from fedconformal._extras import MissingExtraError
from fedconformal._text import count, nearest_percent, percent
from fedconformal._version import __version__
from fedconformal.audit import Finding, verify
from fedconformal.documents import (
    Calibration,
    Check,
    Design,
    Document,
    Facts,
    Plan,
    Report,
)
from fedconformal.monitoring import WatchRow, cases_needed, plan_watch, watch
from fedconformal.monitoring._check import SiteCheck, assess
from fedconformal.pages._claims import Answered, Budget, Claim
from fedconformal.pages._planner import USUAL_CASES
from fedconformal.pages._render import read_asset, render
from fedconformal.planning import CRITERIA, PromiseScope
from fedconformal.protocol import (
    AssumptionKind,
    assumption_codes,
    assumption_sentences,
    loss_curve,
    score_of,
    uncovered_sentences,
)

_MOST_ANSWERED = 12  # of which the first page has names; the table has more
_MOST_CLASSES = 8  # that are columns of a table
_DETAILS = (
    "supersedes",
    "plans_tried",
    "several_cases",
    "prevalence",
)  # not on the first page
_DROPS = (
    0.05,
    0.1,
)  # of the coverage, for which the certificate says how many cases detect them


class UnverifiedError(ValueError):
    """A calibration that gets no certificate, because a claim of it was not
    verified.
    """


def certificate(
    calibration: Calibration,
    *,
    reports: Sequence[Report] | None = None,
    checks: Sequence[Check] = (),
    facts: Mapping[str, str] | None = None,
    sets: ArrayLike | None = None,
    allow_unverified: bool = False,
) -> str:
    """Return a page that says what a calibration promises.

    The claim is verified first, by independent code, with the reports of the sites
    where they are given, which do not go on the page. The page carries the calibration
    itself, so that whoever holds it can verify it. It needs Jinja2, which comes with
    the extras ``cli`` and ``web``.

    Parameters
    ----------
    calibration : Calibration
        With groups of cases or without.
    reports : sequence of Report, optional
        Reports of the sites: the thresholds are then recomputed from them.
    checks : sequence of Check
        Findings of sites on later cases; where they have periods, the page shows the
        `watch`.
    facts : mapping from str to str, optional
        Facts beside those of the plan: ``name`` of the model, ``purpose``, ``date`` and
        so on, as in the terms of `plan`.
    sets : array-like, optional
        Prediction sets of cases like those it is meant for, as
        `Calibration.predict_interval` and `Calibration.predict_set` return them: the
        page then says how large they are.
    allow_unverified : bool
        Write the page although a claim cannot be verified; its headline then says NOT
        VERIFIED.

    Returns
    -------
    str
        HTML without scripts or anything from elsewhere.

    Raises
    ------
    ValueError
        If a claim does not hold or cannot be verified, checks are of another
        calibration, facts contradict the plan's, or sets do not have its levels.
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
    findings = verify(calibration, reports)
    for verdict in (False,) if allow_unverified else (False, None):
        if wrong := next(
            (finding for finding in findings if finding.holds is verdict), None
        ):
            found = f"{wrong.claim}: {wrong.detail}"
            if verdict is None:
                raise UnverifiedError(
                    "this calibration gets no certificate, a claim cannot be verified:"
                    f" {found}"
                )
            raise UnverifiedError(
                "this calibration gets no certificate, its claim does not hold:"
                f" {found}"
            )
    all_facts = (calibration.plan.terms.facts or Facts()).with_more(facts or {})
    view = CertificateView(
        calibration,
        findings,
        all_facts,
        checks,
        sets=sets,
        has_reports=reports is not None,
    )
    style = "\n".join(map(read_asset, ("common.css", "certificate.css")))
    encoded = base64.b64encode((calibration.to_json() + "\n").encode()).decode()
    return render(
        "certificate.html", view=view, style=style, version=__version__, encoded=encoded
    )


class CertificateView:
    """Values of a certificate: a calibration, the auditor's findings, facts, later
    checks, and sets.

    ``has_reports`` is True if the findings are also from the reports of the sites.
    """

    def __init__(
        self,
        calibration: Calibration,
        findings: Sequence[Finding],
        facts: Facts,
        checks: Sequence[Check] = (),
        *,
        sets: ArrayLike | None = None,
        has_reports: bool = False,
    ) -> None:
        self.calibration, self.plan, self.findings = (
            calibration,
            calibration.plan,
            findings,
        )
        self.not_verified = [finding for finding in findings if finding.holds is None]
        self.has_reports = has_reports
        self.planned_facts, has_periods = (
            self.plan.terms.facts or Facts(),
            any(it.period for it in checks),
        )
        self.facts, self.unit = facts.given, self.planned_facts.unit or ""
        self.watch = watch(calibration, checks) if has_periods else None
        self.assessment = (
            assess(calibration, list(checks)) if checks and not has_periods else None
        )
        budget = Budget()
        parts = calibration.parts
        self.claims = [
            Claim(self.plan, part.design, budget, calibration, part) for part in parts
        ]
        self.levels = [level for claim in self.claims for level in claim.levels]
        self.finite_levels = [level for level in self.levels if level.is_finite]
        finite = [level.claim for level in self.finite_levels]
        self.promises = list(
            dict.fromkeys((claim.promise, claim.criterion) for claim in finite)
        )
        self.score: scores.Score | None = None
        with suppress(
            TypeError, ValueError
        ):  # there is none, or one that is not installed here
            self.score = score_of(self.plan.score)
        self.has_label_score = isinstance(self.score, scores.LabelScore)
        self.has_loss_score = isinstance(self.score, scores.LossScore)
        self.kind, curve = (
            "losses" if self.has_loss_score else "sets",
            loss_curve(self.plan),
        )
        if curve is not None:
            self.kind = "sums" if curve.starts is None else "answers"
        losses = [
            messages.of(design.message).epsilon(design) for design in self.plan.designs
        ]
        self.epsilon = max(
            (float(loss) for loss in losses if loss is not None), default=None
        )
        self.sizes = (
            None if sets is None else _set_sizes(sets, self.plan.confidence_levels)
        )

    @property
    def headlines(self) -> list[str]:
        """Sentences of all promises with a finite threshold, with how many groups each
        is for.
        """
        promised = Counter(
            (level.claim.scope, level.claim.criterion, level.level, level.claim.delta)
            for level in self.finite_levels
        )
        sentences = []
        for (scope, criterion, level, delta), n_groups in promised.items():
            sentence = scope.sentence(
                criterion,
                level,
                delta,
                group=self._in_groups(n_groups),
                claim=self.claims[0].words,
            )
            sentences.append(sentence)
        return sentences

    def _in_groups(self, n_groups: int) -> str:
        if not self.plan.is_grouped:
            return ""
        if len(self.claims) == 1:
            return f" of the {self.claims[0].group}"
        groups = self.plan.grouping.counted(len(self.claims))
        return (
            f" in each of {groups}"
            if n_groups == len(self.claims)
            else f" in {n_groups} of {groups}"
        )

    # -- facts, sites and assumptions --------------------------------------------------

    def fact_rows(self, *, details: bool) -> list[tuple[str, str, bool]]:
        """Return title and text of facts, and whether each was added to the page and is
        not in the plan.
        """
        planned = self.planned_facts.given.keys() | {"date"}
        facts = sorted(self.facts.items(), key=lambda fact: fact[0] != "purpose")
        return [
            (_title(name), text, name not in planned)
            for name, text in facts
            if (name in _DETAILS) == details
        ]

    @property
    def not_stated(self) -> list[str]:
        """Titles of the facts that are missing, and of the sizes of sets where no sets
        were given.
        """
        known = (
            self.facts.keys()
            | {"unit"}
            | ({"prevalence"} if self.prevalence else set())
        )
        titles = [
            _title(name).lower() for name in Facts.model_fields if name not in known
        ]
        return titles + ["sizes of the sets"] * (self.sizes is None)

    @property
    def uncovered(self) -> tuple[str, ...]:
        """Sentences about cases to which nothing is promised, and that do not count."""
        return uncovered_sentences(self.calibration)

    @property
    def answered(self) -> list[str]:
        """Names of the sites that answered, each with its cases that count, unless they
        are many.
        """
        sites = {received.site for received in self.calibration.reports}
        if len(sites) > _MOST_ANSWERED:
            return []
        return _named_sizes(sites, (claim.design for claim in self.claims))

    @property
    def missing(self) -> list[str]:
        """Names of the sites that are missing, each with the cases that it was to
        answer with, as far as they are planned.
        """
        sizes = []
        for claim in self.claims:
            absent = set(claim.part.missing) if claim.part else set()
            kinds = []
            for kind in claim.planned.kinds:
                names = tuple(name for name in kind.names if name in absent)
                kinds.append(kind.model_copy(update={"names": names}))
            sizes.append(claim.planned.model_copy(update={"sites": tuple(kinds)}))
        return _named_sizes(self.calibration.missing, sizes)

    @property
    def not_asked(self) -> list[str]:
        """Names of the sites that are not asked, each with its planned cases."""
        designs = [claim.planned for claim in self.claims]
        return _named_sizes(self.calibration.not_asked, designs)

    def assumptions(self, kind: str) -> tuple[str, ...]:
        """Return the sentences that follow from the plan and from who answered,
        whatever the file says.
        """
        codes = {"assumptions": assumption_codes(self.plan, self.calibration.n_missing)}
        return assumption_sentences(
            self.calibration.model_copy(update=codes), AssumptionKind[kind]
        )

    # -- later checks ------------------------------------------------------------------

    def check_rows(self, *, by_group: bool) -> list[SiteCheck]:
        """Return the findings on all cases of each site, or on its groups where there
        is none on all.

        ``by_group`` is for the others.
        """
        rows = self.assessment.rows if self.assessment else ()
        whole = {row.site for row in rows if row.group is None}
        return [
            row
            for row in rows
            if (row.group is not None and row.site in whole) == by_group
        ]

    @property
    def check_plan(self) -> list[list[float]]:
        """Level, then lower coverages, each with the new cases with which a check
        detects it.
        """
        if self.kind == "answers" or (self.kind == "sums" and self.score is None):
            return []  # no score can be checked
        levels = sorted(
            {level.level for level in self.finite_levels if level.level > max(_DROPS)}
        )[:4]
        lower = {level: [round(level - drop, 9) for drop in _DROPS] for level in levels}
        return [
            [level, *chain(*((x, cases_needed(level, x)) for x in lower[level]))]
            for level in levels
        ]

    @property
    def watch_rows(self) -> list[WatchRow]:
        """Findings of the watch: all sites together, then alarms, then the others."""
        rows = self.watch.rows if self.watch else ()
        return sorted(rows, key=lambda row: (row.site is not None, row.alarm is None))

    @property
    def watch_plan(self) -> list[str]:
        """Sentences about how soon a drop is found with as many cases as sites sent, or
        with 50 each.
        """
        if self.plan.is_grouped:
            return []
        cases = [
            point.n
            for row in self.watch_rows
            if row.site is not None
            for point in row.points
        ]
        number = max(1, sum(cases) // len(cases)) if cases else USUAL_CASES
        levels = sorted(
            {level.level for level in self.finite_levels if level.level > max(_DROPS)}
        )[:2]
        plans = [
            plan
            for level in levels
            for plan in plan_watch(self.calibration[level], number)
        ]
        return [plan.sentence() for plan in plans]

    # -- what sites sent ---------------------------------------------------------------

    @property
    def answers(self) -> list[Answered]:
        """Numbers of each site, for each group."""
        return [answered for claim in self.claims for answered in claim.answers]

    @property
    def digests(self) -> dict[str, str]:
        """Beginning of the digest of the report that counted, by site."""
        reports = self.calibration.reports
        return {
            received.site: received.report.removeprefix("sha256:")[:12]
            for received in reports
        }

    @property
    def has_partial_prevalence(self) -> bool:
        """True if a site did not answer for every class."""
        if self.prevalence is None:
            return False
        classes, by_site = self.prevalence
        return any(len(counts) < len(classes) for counts in by_site.values())

    def prevalence_text(self, label: str, counts: Counter[str]) -> str:
        """Return the share of a class among the cases of a site; the number of cases
        where the site did not answer for all classes, so that there is no share.
        """
        classes = () if self.prevalence is None else self.prevalence[0]
        if label not in counts:
            return "not counted"
        if len(counts) < len(classes):
            return count(counts[label], "case")
        return nearest_percent(counts[label] / counts.total())

    @property
    def prevalence(self) -> tuple[list[str], dict[str, Counter[str]]] | None:
        """Classes, and the cases of each by site; None without classes, or if they are
        many.
        """
        classes, by_site = dict[str, None](), dict[str, Counter[str]]()
        for answered in self.answers if self.plan.grouping.by_class else ():
            label = self.plan.grouping.parts_of(answered.claim.label)[1] or ""
            classes[label] = None
            by_site.setdefault(answered.site, Counter())[label] += answered.n
        return (list(classes), by_site) if 0 < len(classes) <= _MOST_CLASSES else None


def _named_sizes(names: Iterable[str], designs: Iterable[Design]) -> list[str]:
    """Return "north (120 cases)" for each name: cases in all designs together."""
    sizes: Counter[str] = Counter()
    for design in designs:
        for kind in design.kinds:
            for name in kind.names:
                sizes[name] += kind.n
    texts = []
    for name in sorted(names):
        cases = f" ({count(sizes[name], 'case')})" if name in sizes else ""
        texts.append(f"{name}{cases}")
    return texts


def _title(name: str) -> str:
    return Facts.model_fields[name].title or name


def _set_sizes(sets: ArrayLike, levels: Sequence[float]) -> dict[str, Any]:
    """Return headers and rows of a table of the sizes of sets, level by level: labels,
    or widths.
    """
    array = np.asarray(sets)
    array = array[:, :, np.newaxis] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[2] != len(levels) or array.size == 0:
        raise ValueError(
            "sets must have the shape (cases, labels or 2, levels) with"
            f" {count(len(levels), 'level')}, got {np.shape(sets)}"
        )
    has_labels, by_level = (
        array.dtype == bool,
        list(zip(levels, np.moveaxis(array, 2, 0), strict=True)),
    )
    if not has_labels and array.shape[1] != 2:
        raise ValueError(
            "sets of numbers must have a lower and an upper end, got shape"
            f" {np.shape(sets)}"
        )
    n, rows = len(array), []
    if has_labels:
        most = min(array.shape[1], _MOST_CLASSES)
        headers = ["no label", "1 label", *(f"{k} labels" for k in range(2, most + 1))]
        headers[-1] += " or more" * (array.shape[1] > most)
        for level, chosen in by_level:
            counts = np.bincount(
                np.minimum(chosen.sum(axis=1), most), minlength=most + 1
            )
            rows.append([percent(level), *(f"{size:,}" for size in counts)])
    else:
        headers = [
            "infinite",
            "empty",
            "a quarter up to",
            "half up to",
            "19 of 20 up to",
        ]
        for level, ends in by_level:
            widths = ends[:, 1] - ends[:, 0]
            infinite, empty = np.isposinf(widths), ~(widths >= 0)
            shares = np.quantile(
                np.where(empty, 0.0, widths), (0.25, 0.5, 0.95), method="higher"
            )
            figures = [
                "infinite" if width == np.inf else f"{width:.4g}" for width in shares
            ]
            rows.append(
                [percent(level), f"{infinite.sum():,}", f"{empty.sum():,}", *figures]
            )
    return {"n": n, "has_labels": has_labels, "headers": headers, "rows": rows}


# -- views of plans and calibrations in notebooks --------------------------------------


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
        HTML without scripts; None for other documents and where Jinja2 is not
        installed: then a line of text is shown.
    """
    style = read_asset("notebook.css")
    try:
        if isinstance(document, Plan):
            designs, budget = document.designs[:_MOST_GROUPS], Budget()
            claims = [Claim(document, design, budget) for design in designs]
            promises = promise_sentences(document, designs)
            values = {
                "plan": document,
                "claims": claims,
                "promises": promises,
                "budget": budget,
            }
            return render("notebook.html", style=style, **values)
        if isinstance(document, Calibration):
            findings = verify(document)
            wrong = next(
                (finding for finding in findings if finding.holds is False), None
            )
            view = CertificateView(document, findings, Facts())
            return render(
                "notebook.html", plan=None, style=style, view=view, wrong=wrong
            )
    except MissingExtraError:
        pass
    return None


def promise_sentences(plan: Plan, designs: Iterable[Design]) -> list[tuple[float, str]]:
    """Return each level with the sentence of its promise, empty where no threshold is
    finite; each once.
    """
    promised: dict[tuple[float, str], None] = {}
    for design in designs:
        scope = PromiseScope.of(plan, design)
        criterion = CRITERIA[design.criterion]()
        delta = None if design.delta is None else float(design.delta)
        words = {
            "group": " in each group" if plan.is_grouped else "",
            "claim": messages.claim(design, plan.score),
        }
        for level in design.levels:
            asked = float(level.confidence_level)
            sentence = (
                scope.sentence(criterion, asked, delta, **words)
                if level.advice is None
                else ""
            )
            promised[asked, sentence] = None
    return list(promised)
