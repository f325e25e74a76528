"""The box on top: what this is about, and who answers for it; and the lines to sign at the end."""

from collections.abc import Iterator

from fedconformal._text import count, listed
from fedconformal.documents import Facts
from fedconformal.web._html import Markup, section, table, tag
from fedconformal.web.certificates._claim import Certified

_MOST_SITES = 12
_NOT_SAID = "not said"
_ONLY_IF_TOLD = ("unit", "date")
_SIGN = ("For the coordinator", "For the board", "Place and date")


def facts(it: Certified) -> Markup:
    """Return the facts that were told, those that are missing, and what the calibration says itself."""
    rows = [*_told(it), *_known(it)]
    return tag("div", table(("", ""), rows, caption="The facts"), class_="facts")


def _told(it: Certified) -> Iterator[tuple[str, str]]:
    told = it.facts.told
    for name, field in Facts.model_fields.items():
        if name in told or name not in _ONLY_IF_TOLD:
            yield field.title or name, told.get(name, _NOT_SAID)


def _known(it: Certified) -> Iterator[tuple[str, str]]:
    yield "Sites that answered", _sites(it)
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
    return section(
        "Signed",
        tag("div", *(tag("p", words, class_="sign") for words in _SIGN), class_="signatures"),
        tag("p", "Calibration ", tag("code", it.calibration.digest), class_="note"),
    )
