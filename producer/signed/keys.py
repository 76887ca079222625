"""Ed25519 keys: creates and reads them, signs and verifies."""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from calmstream.common.errors import InvalidInput
from calmstream.producer.signed.certificate import KEY


def new_private_key() -> bytes:
    """Return a new private key in PEM (PKCS #8, not encrypted)."""
    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def public_key(private: bytes) -> str:
    """Return the public key of a private key in PEM, as 64 hexadecimal digits."""
    return _private(private).public_key().public_bytes_raw().hex()


def sign(private: bytes, message: bytes) -> bytes:
    return _private(private).sign(message)


def verifies(public: str, signature: bytes, message: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def read_public_keys(text: str) -> tuple[str, ...]:
    """Return the keys of a file, one a line; ``#`` begins a comment."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    keys = tuple(line for line in lines if line)
    if not keys or not all(KEY.fullmatch(key) for key in keys):
        raise InvalidInput("expected public keys of 64 lower-case hexadecimal digits, one a line")
    return keys


def _private(pem: bytes) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput("expected a private Ed25519 key in PEM (PKCS #8, not encrypted)")
    return key
