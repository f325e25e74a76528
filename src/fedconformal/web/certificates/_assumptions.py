"""What a promise rests on, what else is good to know, and what nobody has checked."""

from collections.abc import Iterator

from fedconformal._text import listed
from fedconformal.documents import Calibration
from fedconformal.protocol import Bearing, assumption_sentences, assumptions_of
from fedconformal.web._cases import in_cases
from fedconformal.web._html import Markup, listing, section, tag
from fedconformal.web.certificates._claim import Certified


def assumptions(it: Certified) -> Markup:
    """Return what follows from the plan and from who answered, as the protocol says it, and what is left."""
    found = _recomputed(it)
    caveats = [*_said(found, Bearing.CAVEAT), *_caveats(it)]
    unchecked = [*_said(found, Bearing.UNCHECKED), *_unseen(it)]
    return section(
        "What it rests on",
        tag("h3", "The promise holds if"),
        listing("ol", _said(found, Bearing.CONDITION)),
        tag("h3", "Good to know"),
        listing("ul", caveats),
        tag("h3", "Not checked"),
        listing("ul", unchecked),
    )


def _said(found: Calibration, bearing: Bearing) -> list[str]:
    """The protocol's sentences, in the words of the page."""
    return [in_cases(sentence) for sentence in assumption_sentences(found, bearing)]


def _recomputed(it: Certified) -> Calibration:
    """The calibration with the codes that follow from its plan, whatever it says itself."""
    missing = max(claim.calibration.n_missing for claim in it.claims)
    return it.calibration.model_copy(update={"assumptions": assumptions_of(it.plan, missing)})


def _caveats(it: Certified) -> Iterator[str]:
    whose = listed(list(dict.fromkeys(claim.promise.whose for claim in it.claims)))
    if it.plan.is_grouped:
        yield (
            f"The promise is for {whose} of a group: for many of them together, not for any one case or any "
            "smaller group of cases."
        )
    else:
        yield (
            f"The promise is for {whose}: for many of them together, not for any one case or any one group "
            "of cases."
        )


def _unseen(it: Certified) -> Iterator[str]:
    yield (
        "That the thresholds, and what else this page takes from the calibration, are what the sites "
        "reported: the page was made without their reports."
    )
    if it.plan.privacy is not None:
        yield "That each site drew its noise as the plan says, and kept its ledger."
    yield "That the scores were computed as agreed, on cases that the model was not trained on."
    if it.facts.told:
        yield "That the facts on top are true. They are as somebody wrote them."
    yield "That new cases resemble the calibration cases. If they change, the promise is void."
