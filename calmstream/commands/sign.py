"""Sign a plan made with --lineage NAME@FILE.pub.

Devices whose application trusts the root accept the result.
"""

from __future__ import annotations

import argparse

import orjson

from calmstream import arguments
from calmstream.common.errors import InvalidInput
from calmstream.output import say
from calmstream.producer.device.read_plan import read_signed_plan
from calmstream.producer.signed import envelope, keys
from calmstream.producer.signed.certificate import Certificate, certificate_of, read_statement


def add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN", help="the plan document")
    parser.add_argument("--key", required=True, metavar="FILE", help="private signing key")
    parser.add_argument("--certificate", required=True, metavar="FILE", help="of that key")
    parser.add_argument("--out", required=True, metavar="FILE", help="written, or replaced")


def run(args: argparse.Namespace) -> int:
    plan = arguments.load_plan(args.plan)
    key, certificate = arguments.read_file(args.key), _certificate(args.certificate)
    statement = read_statement(certificate.statement)
    if keys.public_key(key) != statement.key:
        raise InvalidInput(f"{args.certificate}: it certifies another key than {args.key}")
    if not statement.valid_at(plan.start):
        raise InvalidInput(
            f"{args.certificate}: it is valid from {statement.not_before} to "
            f"{statement.not_after}, and the plan starts at {plan.start}"
        )
    raw = envelope.seal(key, certificate, plan.to_bytes()).to_bytes()
    read_signed_plan(raw, (statement.root,))
    arguments.write_file(args.out, raw + b"\n")
    if plan.expires > statement.not_after:
        say(
            f"calmstream: the certificate ends at {statement.not_after}, before the plan at "
            f"{plan.expires}: devices stop reporting when it ends",
            error=True,
        )
    say(f"written to {args.out}")
    return 0


def _certificate(path: str) -> Certificate:
    try:
        certificate = certificate_of(orjson.loads(arguments.read_file(path)))
        read_statement(certificate.statement)
    except ValueError as error:
        raise InvalidInput(f"{path}: not a certificate: {error}") from None
    return certificate
