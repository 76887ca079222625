"""Print what each role may do with this plan's topics.

With --apply, grant a role to a principal; permissions are only added, never removed.
"""

from __future__ import annotations

import argparse
from itertools import starmap

from calmstream import arguments
from calmstream.broker.names import TopicNames
from calmstream.broker.permissions import ROLES, Permission, permissions
from calmstream.common.errors import InvalidInput
from calmstream.connect import names_of, opened
from calmstream.output import say, say_json
from calmstream.terminal import Console, grid


def add(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--plan", "--namespace", "--output-namespace", "--json")
    arguments.add(parser, "--bootstrap", required=False)
    parser.add_argument("--role", choices=sorted(ROLES), help="only this role")
    parser.add_argument("--principal", metavar="User:NAME", help="principal that gets the role")
    parser.add_argument("--apply", action="store_true", help="apply the permissions to the cluster")


def run(args: argparse.Namespace) -> int:
    names = names_of(args, arguments.load_plan(args.plan))
    if args.apply:
        return _apply(args, names)
    roles = [args.role] if args.role else list(ROLES)
    rules = [(role, rule) for role in roles for rule in permissions(role, names)]
    if args.json:
        say_json(*starmap(_document, rules))
        return 0
    table = grid("role", "operation", "resource", "name")
    for role, rule in rules:
        table.add_row(role, rule.operation, rule.kind, rule.name + "*" * rule.prefixed)
    Console().print(table)
    return 0


def _apply(args: argparse.Namespace, names: TopicNames) -> int:
    if not (args.role and args.principal and args.bootstrap):
        raise InvalidInput("--apply needs --role, --principal and --bootstrap")
    if not args.principal.partition(":")[2]:
        raise InvalidInput(f"--principal: expected User:NAME, got {args.principal!r}")
    rules = permissions(args.role, names)
    with opened(args) as broker:
        broker.grant(args.principal, rules)
    say(f"{args.principal} may act as {args.role}: {len(rules)} rules")
    return 0


def _document(role: str, rule: Permission) -> dict[str, str]:
    return {
        "role": role,
        "resource": rule.kind,
        "name": rule.name,
        "pattern": "prefixed" if rule.prefixed else "literal",
        "operation": rule.operation,
    }
