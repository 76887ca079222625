"""Make keys that sign plans, and certify them.

Keep the root key offline: it certifies signing keys, and applications trust it.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from calmstream import arguments
from calmstream.common.errors import InvalidInput
from calmstream.output import say
from calmstream.producer.signed import envelope, keys
from calmstream.producer.signed.certificate import Statement, canonical


def add(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    new = actions.add_parser(
        "new",
        help="make a key, root or signing",
        description="Make an Ed25519 key. FILE gets the private key (PEM, readable by its owner "
        "only), FILE.pub the public one (64 hexadecimal digits), which is printed too.",
    )
    new.add_argument("--out", required=True, metavar="FILE", help="must not exist yet")
    new.set_defaults(run=run_new)
    certify = actions.add_parser(
        "certify",
        help="state with the root key that a signing key may sign plans",
        description="Write a certificate: the owner may sign plans with the key between two dates. "
        "Devices stop reporting under a plan when its certificate ends.",
    )
    certify.add_argument("--root", required=True, metavar="FILE", help="private root key")
    certify.add_argument("--key", required=True, metavar="FILE.pub", help="public signing key")
    certify.add_argument(
        "--from",
        dest="since",
        required=True,
        type=arguments.day,
        metavar="DATE",
        help="first day, such as 2026-01-31 (UTC), or second since the epoch",
    )
    certify.add_argument(
        "--until", required=True, type=arguments.day, metavar="DATE", help="last day, included"
    )
    certify.add_argument(
        "--owner", required=True, help="who answers for the plans; people see it on their devices"
    )
    certify.add_argument("--out", required=True, metavar="FILE", help="written, or replaced")
    certify.set_defaults(run=run_certify)


def run_new(args: argparse.Namespace) -> int:
    private = keys.new_private_key()
    public = keys.public_key(private)
    _create(args.out, private, 0o600)
    _create(f"{args.out}.pub", f"{public}\n".encode(), 0o644)
    say(public)
    return 0


def run_certify(args: argparse.Namespace) -> int:
    root, key = arguments.read_file(args.root), arguments.public_key(args.key)
    try:
        statement = Statement(keys.public_key(root), key, args.owner, args.since[0], args.until[1])
    except ValueError as error:
        raise InvalidInput(f"certificate: {error}") from None
    certificate = envelope.certify(root, statement)
    arguments.write_file(args.out, canonical(certificate.to_json()) + b"\n")
    say(f"written to {args.out}")
    return 0


def _create(path: str, data: bytes, mode: int) -> None:
    """Write a new file, durably; an existing key is never replaced."""
    try:
        descriptor = os.open(Path(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}") from None
