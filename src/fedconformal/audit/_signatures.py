"""Whose signatures there are: of the sites on their reports, of the coordinator on plan and calibration."""

from collections.abc import Sequence
from functools import partial

from fedconformal.audit._answers import named
from fedconformal.audit._finding import Finding
from fedconformal.documents import Calibration, Plan, is_signature, signed_text

SIGNED_REPORTS = "every report is signed with its site's key"
"""The claim of a finding, by which it is found among others."""


def of_sites(calibration: Calibration) -> list[Finding]:
    """Whether every report that counted is signed with its site's key, where the plan lists keys.

    Signatures are of the digests of plan and report, so that no report need be at hand.

    Parameters
    ----------
    calibration : Calibration
        The whole.

    Returns
    -------
    list of Finding
        Empty where nobody was asked to sign, and nobody did.
    """
    keys = {key.site: key.public_key for key in calibration.plan.keys or ()}
    received = calibration.reports
    if not keys:
        signed = [each.site for each in received if each.signature is not None]
        claim = "no report is signed, as the plan lists no keys"
        return [Finding(claim, f"not {named(signed)}", False)] if signed else []
    claim, text = SIGNED_REPORTS, partial(signed_text, calibration.plan.digest)
    try:
        unsigned = [
            each.site
            for each in received
            if each.site not in keys or not is_signature(each.signature, text(each.report), keys[each.site])
        ]
    except ImportError as error:
        return [Finding(claim, str(error), None)]
    found = f"{len(received) - len(unsigned)} of {len(received)}"
    found = f"{found}, not {named(unsigned)}" if unsigned else found
    return [Finding(claim, found, bool(received) and not unsigned)]


def of_coordinator(calibration: Calibration, signers: Sequence[str]) -> list[Finding]:
    """Whether the signatures that plan and calibration carry are valid, and of one of certain keys.

    Parameters
    ----------
    calibration : Calibration
        The whole.
    signers : sequence of str
        Public keys of which one must have signed the calibration, and also the plan if that is signed;
        none where anybody, or nobody, may have.

    Returns
    -------
    list of Finding
    """
    findings = _valid("plan", calibration.plan) + _valid("calibration", calibration)
    if not signers:
        return findings
    findings.append(_of_one("the calibration", calibration.signer, signers))
    if _has_signature(calibration.plan):
        findings.append(_of_one("the plan", calibration.plan.signer, signers))
    return findings


def _has_signature(document: Plan | Calibration) -> bool:
    return document.signature is not None or document.signer is not None


def _valid(name: str, document: Plan | Calibration) -> list[Finding]:
    if not _has_signature(document):
        return []
    claim, key = f"the {name} is signed with the key that it names", document.signer or "no key"
    try:
        return [Finding(claim, key, document.is_signed)]
    except ImportError as error:
        return [Finding(claim, str(error), None)]


def _of_one(what: str, signer: str | None, signers: Sequence[str]) -> Finding:
    """Whether the key that is named is one of those; that it is valid is a finding of its own."""
    wanted = signers[0] if len(signers) == 1 else f"one of {len(signers)} keys"
    return Finding(f"{what} is signed with {wanted}", signer or "no signature", signer in signers)
