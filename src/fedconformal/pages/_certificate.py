"""The certificate of a calibration: one HTML page for people who never open a terminal."""

import base64
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from fedconformal import messages, scores
from fedconformal._extras import MissingExtraError
from fedconformal._text import count, nearest_percent, percent
from fedconformal._version import __version__
from fedconformal.audit import Finding, verify
from fedconformal.documents import Calibration, Check, Design, Document, Facts, Plan
from fedconformal.monitoring import Assessment, assess, cases_needed
from fedconformal.pages._claims import Budget, Claim, LevelClaim, first_names
from fedconformal.pages._render import read_asset, render
from fedconformal.planning import CRITERIA, PROMISES, Criterion, Promise
from fedconformal.protocol import AssumptionKind, assumption_codes, assumption_sentences

_MOST_SHARES = 20
_MOST_ANSWERED = 12  # of which the first page has names; the table has more
_DROPS = (0.05, 0.1)  # of the coverage, for which the certificate says how many cases detect them


class NotVerifiedError(ValueError):
    """A calibration whose claim does not hold when it is recomputed: it gets no certificate."""


def certificate(
    calibration: Calibration,
    *,
    checks: Sequence[Check] = (),
    facts: Mapping[str, str] | None = None,
) -> str:
    """Return a page that says what a calibration promises.

    The claim is verified first, by independent code. The page carries the calibration itself, so that whoever
    holds it can verify it. It needs Jinja2, which comes with the extras ``cli`` and ``web``.

    Parameters
    ----------
    calibration : Calibration
        With groups of cases or without.
    checks : sequence of Check
        Findings of sites on later cases, to be shown.
    facts : mapping from str to str, optional
        Facts beside those of the plan: ``name`` of the model, ``purpose``, ``date`` and so on, as in the
        terms of `plan`.

    Returns
    -------
    str
        HTML without scripts or anything from elsewhere.

    Raises
    ------
    NotVerifiedError
        If a claim does not hold. A claim that could not be verified is no reason; the page says so.
    ValueError
        If checks are of another calibration, or facts contradict the plan's.
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
    if wrong := [finding for finding in findings if finding.holds is False]:
        first = wrong[0]
        raise NotVerifiedError(
            f"this calibration gets no certificate, its claim does not hold: {first.claim}: {first.detail}"
        )
    all_facts = (calibration.plan.terms.facts or Facts()).with_more(facts or {})
    view = CertificateView(
        calibration, findings, all_facts, assess(calibration, list(checks)) if checks else None
    )
    style = "\n".join(map(read_asset, ("common.css", "certificate.css")))
    return render("certificate.html", view=view, style=style, version=__version__)


def _title(name: str) -> str:
    return Facts.model_fields[name].title or name


def _named_sizes(names: Iterable[str], sizes: Mapping[str, int]) -> str:
    """Return "north (120 cases) and south (40 cases)"."""
    return first_names(
        [f"{name} ({count(sizes[name], 'case')})" if name in sizes else name for name in sorted(names)]
    )


class CheckTotal(NamedTuple):
    """Later cases of all sites at a level."""

    level: float
    n: int
    covered: int


@dataclass(frozen=True, eq=False)
class CertificateView:
    """Values of a certificate: a calibration, the auditor's findings, facts, and later checks of sites."""

    calibration: Calibration
    findings: Sequence[Finding]
    facts: Facts
    assessment: Assessment | None

    @property
    def plan(self) -> Plan:
        """Plan that was answered."""
        return self.calibration.plan

    @cached_property
    def claims(self) -> list[Claim]:
        """One claim, or one for each group."""
        budget = Budget()
        return [Claim(self.calibration, part, budget) for part in self.calibration.parts]

    @cached_property
    def levels(self) -> list[LevelClaim]:
        """Claims at each level, group by group."""
        return [level for claim in self.claims for level in claim.levels]

    @cached_property
    def finite_levels(self) -> list[LevelClaim]:
        """Claims with a finite threshold."""
        return [level for level in self.levels if level.is_finite]

    # -- the promise ---------------------------------------------------------------------------------------

    @property
    def headlines(self) -> list[str]:
        """Sentences of all promises with a finite threshold, with how many groups each is for."""
        promised = Counter(
            (level.claim.promise, level.claim.criterion, level.level, level.claim.delta)
            for level in self.finite_levels
        )
        return [
            promise.sentence(criterion, level, delta, self._in_groups(n_groups))
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
    def promises(self) -> list[tuple[Promise, Criterion]]:
        """Promises with a finite threshold, each with its criterion."""
        claims = [level.claim for level in self.finite_levels]
        return list(dict.fromkeys((claim.promise, claim.criterion) for claim in claims))

    @cached_property
    def score(self) -> scores.Score | None:
        """Score of the plan; None where it names none, or one that is not installed here."""
        if self.plan.score is None:
            return None
        try:
            return scores.from_name(self.plan.score.name, **self.plan.score.parameters)
        except (TypeError, ValueError):
            return None

    @property
    def has_label_score(self) -> bool:
        """True if sets are lists of labels."""
        return isinstance(self.score, scores.LabelScore)

    @property
    def unit(self) -> str:
        """Unit of what is predicted, as the plan gives it."""
        return (self.plan.terms.facts or Facts()).unit or ""

    @property
    def shares(self) -> list[str] | None:
        """Shares of a mixture, "north 50 %", empty if they are many or unnamed; None without a mixture."""
        shares = None if self.plan.is_grouped else self.plan.mixture
        if shares is None:
            return None
        if not isinstance(shares, dict) or len(shares) > _MOST_SHARES:
            return []
        return [f"{site} {nearest_percent(float(share))}" for site, share in shares.items()]

    # -- facts, cost and assumptions -----------------------------------------------------------------------

    @property
    def fact_rows(self) -> list[tuple[str, str, bool]]:
        """Title and text of each fact, and whether it was added to the page and is not in the plan."""
        planned = (self.plan.terms.facts or Facts()).given.keys() | {"date"}
        facts = sorted(self.facts.given.items(), key=lambda fact: fact[0] != "purpose")
        return [(_title(name), text, name not in planned) for name, text in facts]

    @property
    def facts_not_stated(self) -> list[str]:
        """Titles of the facts that are missing."""
        names = Facts.model_fields.keys() - self.facts.given.keys() - {"unit"}
        return [_title(name).lower() for name in Facts.model_fields if name in names]

    @property
    def answered(self) -> str:
        """Names and sizes of the sites that answered."""
        sites = {received.site for received in self.calibration.reports}
        return _named_sizes(sites, self._sizes) if len(sites) <= _MOST_ANSWERED else ""

    @property
    def missing(self) -> str:
        """Names and sizes of the sites that were asked and did not answer."""
        return _named_sizes(self.calibration.missing, self._sizes)

    @property
    def not_asked(self) -> str:
        """Names and sizes of the sites that were not asked."""
        return _named_sizes(self.calibration.not_asked, self._sizes)

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """Cases of each site in all groups: those that it answered with, or else those of the plan."""
        sizes: dict[str, int] = {}
        for claim in self.claims:
            designs = claim.planned, claim.design
            of_group = {name: kind.n for design in designs for kind in design.kinds for name in kind.names}
            for name, n in of_group.items():
                sizes[name] = sizes.get(name, 0) + n
        return sizes

    @property
    def sent(self) -> list[str]:
        """Descriptions of what sites sent, as their messages give them; each once."""
        return list(dict.fromkeys(sent for claim in self.claims for sent in claim.sent.values()))

    @cached_property
    def epsilon(self) -> float | None:
        """Privacy loss of a report; None if no noise was added."""
        losses = [messages.of(design.message).epsilon(design) for design in self.plan.designs]
        return max((float(loss) for loss in losses if loss is not None), default=None)

    def assumptions(self, kind: str) -> list[str]:
        """Return the sentences that follow from the plan and from who answered, whatever the file says."""
        codes = {"assumptions": assumption_codes(self.plan, self.calibration.n_missing)}
        recomputed = self.calibration.model_copy(update=codes)
        return list(assumption_sentences(recomputed, AssumptionKind[kind]))

    # -- tables --------------------------------------------------------------------------------------------

    @property
    def check_rows(self) -> list[list[str]]:
        """Finding of each site on later cases."""
        return [
            [
                row.name,
                percent(row.check.confidence_level),
                f"{row.check.covered:,} of {row.check.n:,}{'' if row.epsilon is None else ' (private)'}",
                percent(round(row.check.coverage, 3)),
                "{:.1%} to {:.1%}".format(*row.check.interval).replace("%", " %"),
                row.verdict,
            ]
            for row in (self.assessment.rows if self.assessment else ())
        ]

    @property
    def check_totals(self) -> list[CheckTotal]:
        """Later cases of all sites and how many were covered, for each level."""
        totals: dict[float, CheckTotal] = {}
        rows = self.assessment.rows if self.assessment else ()
        whole = {row.site for row in rows if row.group is None}
        for row in rows:
            if row.group is None or row.site not in whole:
                level = row.check.confidence_level
                _, n, covered = totals.get(level, (level, 0, 0))
                totals[level] = CheckTotal(level, n + row.check.n, covered + row.check.covered)
        return list(totals.values())

    @property
    def check_plan(self) -> list[tuple[float, float, int]]:
        """Level, lower coverage, and the new cases with which a check detects it."""
        levels = sorted({level.level for level in self.finite_levels if level.level > max(_DROPS)})[:4]
        lower = [(level, round(level - drop, 9)) for level in levels for drop in _DROPS]
        return [(level, coverage, cases_needed(level, coverage)) for level, coverage in lower]

    @property
    def has_votes(self) -> bool:
        """True if votes are counted in some group."""
        return any(claim.has_votes for claim in self.claims)

    @property
    def group_rows(self) -> list[list[str]]:
        """Answers, cases and missing sites of each group."""
        return [
            [
                claim.label,
                f"{claim.n_answers:,}",
                f"{claim.n_points:,}",
                f"{claim.part.n_missing:,}",
                claim.missing_names or ("not named" if claim.part.n_missing else "none"),
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

    @cached_property
    def digests(self) -> dict[str, str]:
        """Beginning of the digest of the report that counted, by site."""
        reports = self.calibration.reports
        return {received.site: received.report.removeprefix("sha256:")[:12] for received in reports}

    @property
    def encoded(self) -> str:
        """The calibration itself, in base 64."""
        return base64.b64encode((self.calibration.to_json() + "\n").encode()).decode()


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

    Examples
    --------
    >>> import fedconformal as fc
    >>> view = fc.pages.notebook_view(fc.plan(n_sites=10, n_points=79))
    >>> "at least 90\N{NO-BREAK SPACE}% of new cases" in view
    True
    """
    style = read_asset("notebook.css")
    try:
        if isinstance(document, Plan):
            return _plan_view(document, style)
        if isinstance(document, Calibration):
            findings = verify(document)
            wrong = next((finding for finding in findings if finding.holds is False), None)
            view = CertificateView(document, findings, Facts(), None)
            return render("notebook.html", plan=None, style=style, view=view, wrong=wrong)
    except MissingExtraError:
        pass
    return None


def _plan_view(plan: Plan, style: str) -> str:
    """Return the promises, votes and mean coverages of a plan, and what stands in the way."""
    designs = plan.designs[:_MOST_GROUPS]
    where = " in each group" if plan.is_grouped else ""
    return render(
        "notebook.html",
        plan=plan,
        style=style,
        promises=list(dict.fromkeys(promised for design in designs for promised in _promises(design, where))),
        headers=["group"] * plan.is_grouped + ["level", "sites", "votes needed", "mean coverage"],
        rows=[[design.group] * plan.is_grouped + row for design in designs for row in _rows(design)],
        most_groups=_MOST_GROUPS,
        notes=plan.notes,
    )


def _promises(design: Design, where: str) -> Iterator[tuple[float, str]]:
    """Yield each level with the sentence of its promise, empty where no threshold is finite."""
    promise, criterion = PROMISES[design.promise](), CRITERIA[design.criterion]()
    delta = None if design.delta is None else float(design.delta)
    for level in design.levels:
        asked = float(level.confidence_level)
        yield asked, promise.sentence(criterion, asked, delta, where) if level.advice is None else ""


def _rows(design: Design) -> Iterator[list[str]]:
    sites = "any" if design.n_sites is None else f"{design.n_sites:,}"
    for place, level in enumerate(design.levels):
        votes, mean = "open" if level.votes is None else f"{level.votes:,}", _mean(design, place)
        figures = [votes, mean] if level.advice is None else ["none", "–"]  # nothing that looks like success
        yield [percent(float(level.confidence_level)), sites, *figures]


def _mean(design: Design, place: int) -> str:
    """Return the mean coverage, or the bound of it that is guaranteed; empty while it is unknown."""
    law = messages.law(design, place)
    if law is not None:
        return f"{'≥ ' if messages.of(design.message).is_bound(design) else ''}{law.mean():.4f}"
    guarantee = messages.guarantee(design, place)
    return "" if guarantee is None or guarantee.mean is None else f"≥ {guarantee.mean:.4f}"
