"""The box on top: what this is about, and who answers for it; and the lines to sign at the end."""

from collections.abc import Iterator

from fedconformal._text import count, listed
from fedconformal.documents import Facts
from fedconformal.web._html import Markup, join, section, table, tag
from fedconformal.web.certificates._claim import Certified

_MOST_SITES = 12
_NOT_SAID = "not said"
_ONLY_IF_TOLD = ("unit",)
_OF_THE_PAGE = ("date",)
_SIGN = ("For the coordinator", "For the board", "Place and date")


def facts(it: Certified) -> Markup:
    """Return the facts that were told, those that are missing, and what the calibration says itself."""
    rows = [*_told(it), *_known(it)]
    return tag("div", table(("", ""), rows, caption="The facts"), class_="facts")


def _told(it: Certified) -> Iterator[tuple[str, str]]:
    told, planned = it.facts.told, {} if it.plan.facts is None else it.plan.facts.told
    for name, field in Facts.model_fields.items():
        if name in told:
            of_plan = name in planned or name in _OF_THE_PAGE
            yield field.title or name, told[name] if of_plan else _added(told[name])
        elif name not in _ONLY_IF_TOLD:
            yield field.title or name, _NOT_SAID


def _added(text: str) -> Markup:
    """A fact that sites did not see when they answered."""
    return join([text, " ", tag("span", "(added to this page, not in the plan)", class_="note")])


def _known(it: Certified) -> Iterator[tuple[str, str]]:
    yield "Sites that answered", _sites(it)
    if not it.plan.is_grouped and it.calibration.n_missing:
        yield "Sites that did not answer", f"{it.calibration.n_missing:,}"
    yield "Promise made for", "; ".join(dict.fromkeys(_for_whom(it)))
    if it.plan.expires is not None:
        yield "Reports were taken until", it.plan.expires


def _for_whom(it: Certified) -> Iterator[str]:
    for claim in it.claims:
        promise = claim.promise
        yield promise.serves or ", ".join(filter(None, [promise.whose, promise.condition]))


def _sites(it: Certified) -> str:
    names = {received.site for received in it.calibration.reports}
    counted = count(it.calibration.n_answers, "site")
    return counted if not 0 < len(names) <= _MOST_SITES else f"{counted}: {listed(sorted(names))}"


def signatures(it: Certified) -> Markup:
    """Return lines to be signed on paper, and the digest once more."""
    lines = tag("div", *(tag("p", words, class_="sign") for words in _SIGN), class_="signatures")
    digest = tag("p", "Calibration ", tag("code", it.calibration.digest), class_="note")
    return tag("div", section("Signed", lines, digest), class_="to-sign")
