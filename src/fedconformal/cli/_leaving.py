"""How much of a site's data leaves with its answer, in one line for the data owner."""

from fedconformal._text import count
from fedconformal.documents import Plan, Report, ReportPart


def leaving_sentence(plan: Plan, report: Report) -> str:
    """How many of the site's scores leave; of a private answer, how many bins."""
    if plan.privacy is not None:
        return bins_sentence(plan, n_answers=len(report.parts))
    n, sent = sum(part.n for part in report.parts), sum(map(_n_sent, report.parts))
    groups = f", from {count(len(report.parts), 'group')}" if plan.is_grouped else ""
    if not sent:
        return f"None of your {count(n, 'score')} leaves{groups}: there are too few for the rank asked for."
    return f"{sent:,} of your {count(n, 'score')} {'leaves' if sent == 1 else 'leave'}{groups}."


def bins_sentence(plan: Plan, *, n_answers: int = 1) -> str:
    """What leaves with a private answer for so many groups, or for all points together."""
    drawn, n_bins = n_answers * len(plan.confidence_levels), plan.bins.n_bins if plan.bins else 0
    if drawn == 1:
        return f"One of {n_bins:,} public bins leaves, drawn at random; no score does."
    return f"{drawn:,} names of bins leave, out of {n_bins:,} public ones, drawn at random; no score does."


def _n_sent(part: ReportPart) -> int:
    """How many different scores a part holds: Infinity is none, and levels may share a rank."""
    return len({rank for sent in part.levels for rank in sent.ranks if rank <= part.n})
