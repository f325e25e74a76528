"""How to check a certificate: what was counted again, and the calibration itself."""

import base64
from collections.abc import Iterator

from fedconformal._text import count
from fedconformal.documents import Calibration, Plan
from fedconformal.web._html import Markup, folded, join, table, tag
from fedconformal.web.certificates._claim import Certified

_COMMANDS = "pip install 'fedconformal[cli]'\nfedconformal verify calibration.json"


def findings(it: Certified) -> Markup:
    """Return what the auditor found, and all that it takes to check it oneself."""
    return folded(
        "How to check it",
        tag(
            "p",
            "When this page was made, the calibration was checked against its plan, and the coverage was "
            "counted again by code of its own: it uses none of the laws, searches and bounds that the plan "
            "was made with. What the two have in common is how a file is read, and libraries of others.",
        ),
        _table(it),
        *_not_counted(it),
        tag(
            "p",
            "Do not trust this page: anybody can write a page. The calibration it was made from is inside "
            "it. ",
            _link(it),
            ", compare its digest with the one that the coordinator published, and count again:",
        ),
        tag("pre", _COMMANDS),
        tag(
            "p",
            "With the sites’ reports at hand, ",
            tag("code", "--reports FILE"),
            " (once for each) recomputes the threshold itself. Without them the threshold is as the "
            "coordinator wrote it.",
        ),
        _digests(it),
    )


def _table(it: Certified) -> Markup:
    rows = [(finding.claim, finding.found, finding.verdict) for finding in it.findings]
    return table(("claim", "found", "holds"), rows, caption="What was counted again")


def _not_counted(it: Certified) -> Iterator[Markup]:
    if it.not_counted:
        yield tag(
            "p",
            f"{count(it.not_counted, 'claim')} could not be counted again, because this code does not know "
            "how, or would take too long: the table says which. “fedconformal verify --effort 60” takes "
            "longer; for what it does not know, ask whoever made the calibration for a check of your own.",
            class_="warning",
        )


def _link(it: Certified) -> Markup:
    encoded = base64.b64encode((it.calibration.to_json() + "\n").encode()).decode()
    address = f"data:application/json;base64,{encoded}"
    return tag("a", "Save calibration.json", href=address, download="calibration.json")


def _digests(it: Certified) -> Markup:
    documents = (("calibration", it.calibration), ("plan", it.plan))
    rows = [(name, document.digest, _signer(document)) for name, document in documents]
    headers = ("document", "SHA-256 digest", "signed with the key")
    return join([table(headers, rows, caption="Digests"), table(("", ""), _round(it), caption="The round")])


def _signer(document: Plan | Calibration) -> str:
    """Whose signature was found; one that is not valid would have stopped this page."""
    return document.signer or "not signed"


def _round(it: Certified) -> Iterator[tuple[str, str]]:
    """What tells this round from others."""
    plan = it.plan
    yield "round", plan.round or "the plan has no id of its own: another round with the same wishes is alike"
    yield "model, by the digest of its file", plan.model or "the plan does not say"
    yield "reports were taken until", plan.expires or "the plan does not end"
