"""Ed25519 keys: who made a report."""

from dataclasses import dataclass, field
from typing import Any, Self

from fedconformal._extras import need
from fedconformal.documents._report import Report

_PREFIX = "ed25519:"


@dataclass(frozen=True)
class SigningKey:
    """A site's private key. Keep it at the site.

    Attributes
    ----------
    public_key : str
        What the plan lists for this site.

    Examples
    --------
    >>> import fedconformal as fc
    >>> key = fc.SigningKey.new()
    >>> key.public_key[:8]
    'ed25519:'
    """

    _key: Any = field(repr=False)

    @classmethod
    def new(cls) -> Self:
        """Make a key from the operating system's random source."""
        return cls(_ed25519().Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, pem: bytes) -> Self:
        """Read a private key in PEM (PKCS 8) form, as ``to_pem`` writes it."""
        serialization = need("cryptography.hazmat.primitives.serialization", extra="cli")
        try:
            key = serialization.load_pem_private_key(pem, password=None)
        except (ValueError, TypeError) as error:
            raise ValueError(f"not a private key: {str(error).splitlines()[0]}") from None
        if not isinstance(key, _ed25519().Ed25519PrivateKey):
            raise ValueError("not an Ed25519 key")
        return cls(key)

    def to_pem(self) -> bytes:
        """The private key, unencrypted, in PEM (PKCS 8) form."""
        serialization = need("cryptography.hazmat.primitives.serialization", extra="cli")
        pem: bytes = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return pem

    @property
    def public_key(self) -> str:
        """What the plan lists for this site."""
        raw: bytes = self._key.public_key().public_bytes_raw()
        return _PREFIX + raw.hex()

    def sign(self, report: Report) -> Report:
        """The same report, signed."""
        signature = _PREFIX + self._key.sign(report.signed_content()).hex()
        return report.model_copy(update={"signature": signature})


def is_signed_by(report: Report, public_key: str) -> bool:
    """Whether the report carries a valid signature of this key.

    Parameters
    ----------
    report : Report
        Signed or not.
    public_key : str
        As the plan lists it.

    Returns
    -------
    bool
        False also where there is no signature.
    """
    if report.signature is None:
        return False
    exceptions = need("cryptography.exceptions", extra="cli")
    key = _ed25519().Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key.removeprefix(_PREFIX)))
    try:
        key.verify(bytes.fromhex(report.signature.removeprefix(_PREFIX)), report.signed_content())
    except exceptions.InvalidSignature:
        return False
    return True


def _ed25519() -> Any:
    return need("cryptography.hazmat.primitives.asymmetric.ed25519", extra="cli")
