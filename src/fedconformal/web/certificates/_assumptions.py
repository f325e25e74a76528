"""What a promise rests on, and what no software can see."""

from collections.abc import Iterator

from fedconformal._text import listed
from fedconformal.protocol import assumption_sentences
from fedconformal.web._html import Markup, listing, section, tag
from fedconformal.web.certificates._claim import Certified


def assumptions(it: Certified) -> Markup:
    """Return the assumptions of a calibration, as the protocol says them, and what remains to trust."""
    return section(
        "What it rests on",
        tag("p", "The promise holds if all of the following is true."),
        listing("ol", assumption_sentences(it.calibration)),
        tag("h3", "What no software can see"),
        listing("ul", _unseen(it)),
    )


def _unseen(it: Certified) -> Iterator[str]:
    yield "That the scores were computed as agreed, on cases that the model was not trained on."
    yield "That new cases resemble the calibration cases. If they change, the promise is void."
    whose = listed(list(dict.fromkeys(claim.promise.whose for claim in it.claims)))
    if it.plan.is_grouped:
        yield (
            f"The promise is for {whose} of a group taken together, not for any one case or any smaller "
            "group of cases."
        )
    else:
        yield f"The promise is for {whose} taken together, not for any one case or any one group of cases."
