"""Ed25519 signatures: who made a document.

A signature is made of the document's digest, and the digest leaves signatures out, so
that signing changes no digest. That of a report is made of the digests of the plan that
it answers and of the report: whoever knows these two can check who answered which plan,
without seeing any number.
"""

import dataclasses
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)

from fedconformal._extras import need
from fedconformal._files import warn_if_shared
from fedconformal._text import one_line
from fedconformal._util import read_regular
from fedconformal.documents._base import Document

Signature = Annotated[str, StringConstraints(pattern=r"^ed25519:[0-9a-f]{128}$")]
_PREFIX = "ed25519:"
_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P


def _read_y(key: str) -> int:
    return (
        int.from_bytes(bytes.fromhex(key.removeprefix(_PREFIX)), "little")
        & (2**255 - 1)
    ) % _P


def _owned(key: str) -> str:
    """Refuse a key that belongs to nobody: a point of order 1, 2, 4 or 8, for which
    anyone can sign.

    A point (x, y) of the curve -x^2 + y^2 = 1 + d x^2 y^2 has order 1 or 2 if x = 0, so
    y = 1 or -1; order 4 if twice it is (0, -1), so y = 0; and order 8 if twice it has y
    = 0. Doubling gives y' = (y^2 + x^2) / (2 - y^2 + x^2), which is 0 if x^2 = -y^2,
    and on the curve that is d y^4 + 2 y^2 = 1. A key is the 255 bits of y, which need
    not be below p, and the sign of x: neither way of writing y nor the sign changes the
    order.
    """
    y = _read_y(key)
    if y in (0, 1, _P - 1) or (_D * y**4 + 2 * y**2 - 1) % _P == 0:
        raise ValueError(
            "a public key of small order is nobody's: anyone can sign for it"
        )
    return key


PublicKey = Annotated[
    str, StringConstraints(pattern=r"^ed25519:[0-9a-f]{64}$"), AfterValidator(_owned)
]
"""A public Ed25519 key, as plans list it."""


def exchange_point(public_key: str) -> bytes:
    """Return the X25519 public key of an Ed25519 one, u = (1 + y) / (1 - y) (RFC 7748,
    section 4.1).

    A key and its negative have the same one.
    """
    y = _read_y(public_key)
    return ((1 + y) * pow(1 - y, -1, _P) % _P).to_bytes(32, "little")


class SignedDocument(Document):
    """A document that may carry a signature of its digest."""

    set_by_signing: ClassVar[frozenset[str]] = frozenset({"signature"})

    signature: Signature | None = Field(
        default=None, description="of the digest, which leaves it out"
    )

    @property
    def signed_text(self) -> str:
        """Text that is signed."""
        return self.digest


class AuthoredDocument(SignedDocument):
    """A document that says itself whose signature it carries: nothing else tells who
    its author is.
    """

    set_by_signing: ClassVar[frozenset[str]] = frozenset({"signature", "signer"})

    signer: PublicKey | None = Field(
        default=None, description="whose signature this is"
    )

    @property
    def is_signed(self) -> bool:
        """True if the document carries a valid signature of the key that it names."""
        return self.signer is not None and is_signed_by(self, self.signer)


Signable = TypeVar("Signable", bound=SignedDocument)


@dataclass(frozen=True)
class SigningKey:
    """A private key, of a site or of the coordinator. Keep it where it was made.

    Attributes
    ----------
    public_key : str
        What the plan lists for a site, and what a site's policy lists for the
        coordinator.
    path : Path or None
        The file that it was read from, without symbolic links; None if it was not read
        from a file.
    is_new : bool
        True if this process has made the key. Write it to a file before it answers a
        masked question: the record of its masked answers ends with the process
        otherwise.

    Examples
    --------
    >>> import fedconformal as fc
    >>> key = fc.SigningKey.new()
    >>> key.public_key[:8]
    'ed25519:'
    """

    _key: Any = field(repr=False)
    path: Path | None = field(default=None, compare=False, repr=False)
    is_new: bool = field(default=False, compare=False, repr=False)

    LONGEST: ClassVar[int] = 4096  # bytes of its file

    @classmethod
    def new(cls) -> Self:
        """Make a key from the operating system's random source."""
        return cls(_ed25519().Ed25519PrivateKey.generate(), is_new=True)

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a private key from its file, with a warning if others may read it too.

        Parameters
        ----------
        path : str or Path
            The file, as ``fedconformal keys new`` writes it.

        Returns
        -------
        SigningKey
            The key, which knows its file.

        Raises
        ------
        ValueError
            With the name of the file and the reason in one line.
        """
        file = Path(path)
        pem = read_regular(file, cls.LONGEST + 1)
        try:
            key = cls.from_pem(pem)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        warn_if_shared(file)
        return dataclasses.replace(key, path=file.resolve())

    @classmethod
    def from_pem(cls, pem: bytes) -> Self:
        """Read a private key in PEM (PKCS 8) form, as ``to_pem`` writes it."""
        serialization = need(
            "cryptography.hazmat.primitives.serialization", extra="cli"
        )
        if len(pem) > cls.LONGEST:
            raise ValueError(f"not an Ed25519 key: larger than {cls.LONGEST} bytes")
        try:
            key = serialization.load_pem_private_key(pem, password=None)
        except Exception as error:  # one of the library's own for unknown algorithms
            raise ValueError(
                f"not a private key: {one_line(str(error), 200)}"
            ) from None
        if not isinstance(key, _ed25519().Ed25519PrivateKey):
            raise ValueError("not an Ed25519 key")
        return cls(key)

    def to_pem(self) -> bytes:
        """Return the private key, unencrypted, in PEM (PKCS 8) form."""
        serialization = need(
            "cryptography.hazmat.primitives.serialization", extra="cli"
        )
        pem: bytes = self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return pem

    @property
    def public_key(self) -> str:
        """Public key, with which others check signatures of this key."""
        raw: bytes = self._key.public_key().public_bytes_raw()
        return _PREFIX + raw.hex()

    def agree(self, public_key: str) -> bytes:
        """Return the secret that this key shares with the owner of another one, by
        X25519.

        An Ed25519 key is a point of the curve that X25519 uses, in other coordinates,
        so that one key serves for signing and for agreeing: the private number is that
        of RFC 8032, section 5.1.5.
        """
        x25519 = need("cryptography.hazmat.primitives.asymmetric.x25519", extra="cli")
        number = hashlib.sha512(self._key.private_bytes_raw()).digest()[:32]
        other = x25519.X25519PublicKey.from_public_bytes(exchange_point(public_key))
        secret: bytes = x25519.X25519PrivateKey.from_private_bytes(number).exchange(
            other
        )
        return secret

    def sign(self, document: Signable) -> Signable:
        """Return the same plan, report or calibration, signed."""
        signature = _PREFIX + self._key.sign(document.signed_text.encode()).hex()
        fields = {"signature": signature, "signer": self.public_key}
        return document.model_copy(
            update={name: fields[name] for name in document.set_by_signing}
        )


def is_signed_by(document: SignedDocument, public_key: str) -> bool:
    """Return whether the document carries a valid signature of this key.

    Parameters
    ----------
    document : Plan, Report or Calibration
        Signed or not.
    public_key : str
        As the plan or a policy lists it.

    Returns
    -------
    bool
        False also where there is no signature.

    Examples
    --------
    >>> import fedconformal as fc
    >>> from fedconformal.documents import is_signed_by
    >>> key = fc.SigningKey.new()
    >>> signed = key.sign(fc.plan(n_sites=3, n_points=40))
    >>> is_signed_by(signed, key.public_key), is_signed_by(
    ...     signed, fc.SigningKey.new().public_key
    ... )
    (True, False)
    """
    return is_signature(document.signature, document.signed_text, public_key)


def is_signature(signature: str | None, text: str, public_key: str) -> bool:
    """Return whether this is a signature of this text, made with this key.

    Parameters
    ----------
    signature : str or None
        What may be one.
    text : str
        What was signed: a document's ``signed_text``.
    public_key : str
        As the plan or a policy lists it.

    Returns
    -------
    bool
        False also for None.

    Examples
    --------
    >>> from fedconformal.documents import is_signature
    >>> is_signature(None, "sha256:...", "ed25519:" + "5f" * 32)
    False
    """
    if signature is None:
        return False
    exceptions = need("cryptography.exceptions", extra="cli")
    key = _ed25519().Ed25519PublicKey.from_public_bytes(
        bytes.fromhex(public_key.removeprefix(_PREFIX))
    )
    try:
        key.verify(bytes.fromhex(signature.removeprefix(_PREFIX)), text.encode())
    except exceptions.InvalidSignature:
        return False
    return True


def check_public_key(name: str, key: Any) -> None:
    """Refuse what cannot be a public key.

    Parameters
    ----------
    name : str
        The argument that holds it.
    key : object
        What is to be used as one.

    Raises
    ------
    ValueError
        In one line.

    Examples
    --------
    >>> from fedconformal.documents import check_public_key
    >>> check_public_key("coordinator", "ed25519:" + "5f" * 32)
    """
    try:
        _PUBLIC_KEY.validate_python(key, strict=True)
    except ValidationError:
        raise ValueError(
            f"{name} must be a public key, ed25519: and 64 digits, got {key!r}"
        ) from None


_PUBLIC_KEY: TypeAdapter[str] = TypeAdapter(PublicKey)


def _ed25519() -> Any:
    return need("cryptography.hazmat.primitives.asymmetric.ed25519", extra="cli")
