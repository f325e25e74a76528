"""Who reported, who is missing, and what was refused."""

from collections.abc import Iterator, Sequence

from fedconformal._text import count, listed
from fedconformal.audit import SIGNED_REPORTS
from fedconformal.documents import Answer
from fedconformal.web._html import Markup, section, table, tag
from fedconformal.web.certificates._claim import Certified, Claim

MOST_ROWS = 200
"""Rows of a table; of larger federations the rest stays in the calibration that the page carries."""

_DIGEST = "report’s digest"
_NUMBERS = ("cases", "rank aimed at", "rank sent", "ranks sent", "votes")


def short(digest: str) -> str:
    """Return the beginning of a digest."""
    return digest.removeprefix("sha256:")[:12]


def sites(it: Certified) -> Markup:
    """Return the sites that answered, those that did not, and the reports that did not count."""
    return section(
        "Who reported",
        tag("p", " ".join(_who(it))),
        *(_groups(it) if it.plan.is_grouped else ()),
        *_answers(it),
        *_aggregated(it),
        *_refused(it),
    )


# -- who answered ------------------------------------------------------------------------------------------


def _who(it: Certified) -> Iterator[str]:
    if it.plan.is_grouped:
        yield f"{count(it.calibration.n_answers, 'site')} answered."
    else:
        yield _answered_and_missing(it.claims[0])
    yield from _allowed_wrong(it)
    yield _signed(it)
    if any(claim.has_votes for claim in it.claims):
        yield (
            "Votes were counted: the threshold is the smallest number sent at which the votes of all numbers "
            "up to it reach those needed."
        )
    yield from _not_asked(it)
    yield from _silence(it)
    yield _sent(it)


def _sent(it: Certified) -> str:
    """What the table below says."""
    if it.plan.parts[0].cases is not None:
        return (
            "The table says how many cases each site has, and how many of them were drawn at random: it sent "
            "the scores of those."
        )
    verb = "aimed at" if it.plan.privacy else "sent"
    return f"The table says how many cases each site has, and the score of which rank it {verb}."


def _signed(it: Certified) -> str:
    """What the auditor found of the sites' signatures; a wrong one would have stopped this page."""
    if any(claim.calibration.part.aggregated is not None for claim in it.claims):
        return "The answers came as a sum, which nobody signs."
    if it.plan.keys is None:
        return "The reports were not signed."
    found = {finding.claim: finding for finding in it.findings}.get(SIGNED_REPORTS)
    if found is None or not found.holds:
        return "The plan asks for signed reports; whether they were signed could not be checked here."
    return "Every report was signed with its site’s key."


def _answered_and_missing(claim: Claim) -> str:
    calibration = claim.calibration
    says = f"{count(calibration.n_answers, 'site')} answered"
    if calibration.n_missing:
        named = _missing_names(claim)
        return f"{says}; {count(calibration.n_missing, 'site')} did not{f': {named}' if named else ''}."
    return f"{says}; none is missing." if claim.plan.n_sites is not None else f"{says}."


def _missing_names(claim: Claim) -> str:
    names = list(claim.calibration.missing[:MOST_ROWS])
    more = len(claim.calibration.missing) - len(names)
    return f"{listed(names)}{f' and {more:,} more' if more else ''}"


def _allowed_wrong(it: Certified) -> Iterator[str]:
    if not it.plan.max_faulty:
        return
    wrong = count(it.plan.max_faulty, "wrong report")
    groups = {claim.plan.max_faulty for claim in it.claims}
    where = " in each group" if it.plan.is_grouped else ""
    most = "up to " if len(groups) > 1 else ""
    yield f"The promise allows for {most}{wrong}{where}, in whatever way."


def _groups(it: Certified) -> Iterator[Markup]:
    """How many answered for each group, and who is missing there."""
    headers = ("group", "answered", "cases", "missing", "who is missing")
    rows = [
        (
            claim.label or "",
            f"{claim.calibration.n_answers:,}",
            f"{claim.n_points:,}",
            f"{claim.calibration.n_missing:,}",
            _missing_names(claim) or ("not named" if claim.calibration.n_missing else "nobody"),
        )
        for claim in it.claims
    ]
    yield table(headers, rows, numbers=headers[1:4], caption="Answers for each group")


def _not_asked(it: Certified) -> Iterator[str]:
    """Which sites could never have changed a threshold."""
    for claim in it.claims:
        idle = [block for block in claim.plan.blocks or () if not any(block.ranks)]
        if idle:
            names = [name for block in idle for name in block.names or ()][:MOST_ROWS]
            who = count(sum(block.count for block in idle), "site") + (f" ({listed(names)})" if names else "")
            where = "" if claim.label is None else f" in the {claim.group}"
            yield f"{who} could never have changed the threshold{where}, so the plan did not ask there."


def _silence(it: Certified) -> Iterator[str]:
    """Where the answer of every site was needed."""
    for level in it.levels:
        if level.is_silence_fatal:
            yield f"{level.where}Had one site more been silent, the threshold could have been infinite."


def _answers(it: Certified) -> Iterator[Markup]:
    """What each site answered: in one table with the digests of the reports, or by group and site."""
    digests = {received.site: short(received.report) for received in it.calibration.reports}
    headers, rows = _answer_table(it)
    if it.plan.is_grouped:
        yield from cut_table(("group", *headers), rows, "Answers by group and site")
        yield from cut_table(("site", _DIGEST), list(digests.items()), "Reports that counted")
        return
    signed = [(*row[1:], digests.get(row[1], "")) for row in rows]
    yield from cut_table((*headers, _DIGEST), signed, "Sites that answered")


def _answer_table(it: Certified) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headers after the group, and a row for each answer; votes where they are counted."""
    several, votes = any(claim.numbers[1] > 1 for claim in it.claims), any(c.has_votes for c in it.claims)
    aim = "rank aimed at" if it.plan.privacy else "ranks sent" if several else "rank sent"
    if it.plan.parts[0].cases is not None:
        aim = "cases drawn"
    rows = [
        (
            claim.label or "",
            answer.site,
            f"{answer.n:,}",
            _ranks(answer.ranks) if claim.plan.part.cases is None else f"{len(answer.ranks[0])}",
            *[_votes(claim, answer)] * votes,
        )
        for claim in it.claims
        for answer in claim.calibration.answers
    ]
    return ("site", "cases", aim, *["votes"] * votes), rows


def _votes(claim: Claim, answer: Answer) -> str:
    """The votes of a site at each level, and of each number where it sent several."""
    return "; ".join(map(_votes_at, claim.plan.part.votes_for(answer.n, site=answer.site)))


def _votes_at(votes: Sequence[int]) -> str:
    if len(votes) < 2:
        return f"{sum(votes):,}"
    each = (
        f"{len(votes)} × {votes[0]:,}" if len(set(votes)) == 1 else " + ".join(f"{vote:,}" for vote in votes)
    )
    return f"{each} = {sum(votes):,}"


def cut_table(headers: Sequence[str], rows: Sequence[Sequence[str]], caption: str) -> Iterator[Markup]:
    """A table of the first rows, and how many more there are."""
    if rows:
        numbers = [header for header in headers if header in _NUMBERS]
        yield table(headers, rows[:MOST_ROWS], numbers=numbers, whole=[_DIGEST], caption=caption)
    if len(rows) > MOST_ROWS:
        more = len(rows) - MOST_ROWS
        yield tag("p", f"and {more:,} more, all listed in the calibration.", class_="note")


def _ranks(ranks: Sequence[Sequence[int]]) -> str:
    """The ranks of each level, levels apart from each other where there are several numbers."""
    apart = "; " if any(len(each) > 1 for each in ranks) else ", "
    return apart.join(", ".join(f"{rank:,}" for rank in each) or "none" for each in ranks)


def _aggregated(it: Certified) -> Iterator[Markup]:
    for claim in it.claims:
        for part in claim.calibration.part.aggregated or ():
            who = f"{count(part.count, 'site')} of {count(part.n, 'case')}"
            yield tag("p", f"{who}, rank aimed at {_ranks(part.ranks)}")


# -- what did not count ------------------------------------------------------------------------------------


def _refused(it: Certified) -> Iterator[Markup]:
    whole = [(refusal.source, refusal.reason) for refusal in it.calibration.refused]
    in_groups = [
        (claim.label, refusal.source, refusal.reason)
        for claim in it.claims
        if claim.label is not None
        for refusal in claim.calibration.refused
    ]
    if whole:
        yield tag("h3", "Refused")
        yield tag("p", "These reports did not count.")
        yield from cut_table(("from", "reason"), whole, "Reports that were refused")
    if in_groups:
        yield tag("h3", "Refused in a group")
        yield tag("p", "These numbers did not count, although the reports they came in did.")
        yield from cut_table(("group", "from", "reason"), in_groups, "Numbers that were refused")
