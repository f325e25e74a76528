"""Ed25519 keys: who made a document."""

import pytest

import fedconformal as fc
from documents.samples import report
from fedconformal.documents import is_signature, is_signed_by, signed_text


@pytest.fixture(scope="module")
def key():
    return fc.SigningKey.new()


def test_a_signature_is_of_one_key_and_of_all_content(key):
    signed = key.sign(report())
    assert is_signed_by(signed, key.public_key)
    assert not is_signed_by(signed, fc.SigningKey.new().public_key)
    assert not is_signed_by(report(), key.public_key)
    assert not is_signed_by(signed.model_copy(update={"site": "B"}), key.public_key)
    other = report(2.5).parts
    assert not is_signed_by(signed.model_copy(update={"parts": other}), key.public_key)


def test_who_knows_the_digests_alone_can_check_a_signature(key):
    signed = key.sign(report())
    text = signed_text(report().plan, report().digest)
    assert is_signature(signed.signature, text, key.public_key)
    assert not is_signature(
        signed.signature, signed_text(report().plan, report(2.5).digest), key.public_key
    )
    assert not is_signature(
        signed.signature, signed_text("sha256:other", report().digest), key.public_key
    )
    assert not is_signature(None, text, key.public_key)


class TestAuthors:
    """Plans and calibrations say whose signature they carry."""

    @pytest.fixture(scope="class")
    @classmethod
    def calibration(cls):
        plan = fc.plan(n_sites=3, n_points=20)
        return fc.calibrate(
            plan, [fc.report(plan, range(20), site=site) for site in "ABC"]
        )

    def test_signed_and_read_again(self, key, calibration):
        for document in (calibration, calibration.plan):
            signed = key.sign(document)
            assert (document.is_signed, document.signer) == (False, None)
            assert (signed.is_signed, signed.signer, signed.digest) == (
                True,
                key.public_key,
                document.digest,
            )
            assert type(document).from_json(signed.to_json()) == signed

    def test_a_signature_of_something_else_is_none(self, key, calibration):
        signed = key.sign(calibration.plan)
        other = fc.plan(n_sites=3, n_points=21)
        taken = {"signer": signed.signer, "signature": signed.signature}
        assert not other.model_copy(update=taken).is_signed
        assert not signed.model_copy(
            update={"signer": fc.SigningKey.new().public_key}
        ).is_signed


def test_keys_survive_as_pem_and_stay_out_of_sight(key):
    assert fc.SigningKey.from_pem(key.to_pem()).public_key == key.public_key
    assert repr(key) == "SigningKey()"
    with pytest.raises(ValueError, match="not a private key"):
        fc.SigningKey.from_pem(b"junk")


def test_other_kinds_of_keys_are_refused():
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with pytest.raises(ValueError, match="not an Ed25519 key"):
        fc.SigningKey.from_pem(pem)
