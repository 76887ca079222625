"""Ed25519 keys: creates and reads them, signs and verifies.

The library ``cryptography`` is imported inside the functions, because devices without signed plans
do not need it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from calmstream.common.errors import FatalError, InvalidInput
from calmstream.producer.signed.text import KEY

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def new_private_key() -> bytes:
    """Return a new private key in PEM (PKCS #8, not encrypted)."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def public_key(private: bytes) -> str:
    """Return the public key that belongs to a private key, as 64 hexadecimal digits.

    Args:
        private: the private key in PEM.

    Raises:
        InvalidInput: ``private`` is not an Ed25519 key in PEM.
    """
    return _private(private).public_key().public_bytes_raw().hex()


def sign(private: bytes, message: bytes) -> bytes:
    """Return the signature of a message, 64 bytes.

    Args:
        private: the private key in PEM.
        message: the bytes to sign.

    Raises:
        InvalidInput: ``private`` is not an Ed25519 key in PEM.
    """
    return _private(private).sign(message)


def verifies(public: str, signature: bytes, message: bytes) -> bool:
    """Return whether a key has made a signature of a message.

    Args:
        public: the public key, 64 hexadecimal digits; False for digits that are not a key.
        signature: the signature, 64 bytes.
        message: the signed bytes.

    Raises:
        FatalError: the library is not installed.
    """
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ModuleNotFoundError:
        raise FatalError(
            "signed plans need the package cryptography, which is not installed: "
            "pip install 'calmstream[signed]'"
        ) from None
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def read_public_keys(text: str) -> tuple[str, ...]:
    """Return the public keys of a file with one key in each line.

    Empty lines, and the rest of a line after ``#``, are ignored.

    Raises:
        InvalidInput: a line is not a key, or there is no key.
    """
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    keys = tuple(line for line in lines if line)
    if not keys or not all(KEY.fullmatch(key) for key in keys):
        raise InvalidInput("expected public keys of 64 lower-case hexadecimal digits, one a line")
    return keys


def _private(pem: bytes) -> Ed25519PrivateKey:
    """Return the private key in PEM; InvalidInput if it is not one."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidInput("expected a private Ed25519 key in PEM (PKCS #8, not encrypted)")
    return key
