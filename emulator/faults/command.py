# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command ``emulator fault``, which adds faults to a running emulator."""

from __future__ import annotations

import argparse
import typing as t
from pathlib import Path

import yaml

from ..pool.fields import SpecError
from ..process import EmulatorError, ask_admin
from ..state_dir import StateDir
from .profiles import PROFILES
from .rules import KINDS, PURPOSES

_EPILOG: t.Final = """kinds and their parameters:
{kinds}

examples:
  emulator fault                                          show the rules, and how often each was applied
  emulator fault lost_reply --purpose attach --nth 1      lose the reply to the first attach
  emulator fault status status=429 retry_after=1 --probability 0.2 --seed 7
  emulator fault --profile flaky-network                  one of: {profiles}
  emulator fault --file rules.yml                         {{seed: 7, rules: [{{kind: latency, seconds: 0.2}}]}}
  emulator fault --clear
"""


def add_to(commands: t.Any) -> None:
    """Add the command to the emulator's commands."""
    kinds = "\n".join(f"  {kind:<17} {', '.join(names)}".rstrip() for kind, names in KINDS.items())
    parser = commands.add_parser(
        "fault", help="inject faults into requests, such as lost, late, doubled or refused requests",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EPILOG.format(kinds=kinds, profiles=", ".join(PROFILES)),
    )
    parser.add_argument("kind", nargs="?", choices=KINDS, metavar="KIND", help="add a rule of this kind")
    parser.add_argument("parameters", nargs="*", metavar="NAME=VALUE", help="parameters of the kind")
    parser.add_argument("--manager", help="apply the rule only to requests to this manager")
    parser.add_argument("--method", help="apply the rule only to requests with this method")
    parser.add_argument("--path", metavar="REGEX", help="apply the rule only to paths that match REGEX")
    parser.add_argument("--purpose", choices=PURPOSES, help="apply the rule only to requests with this purpose")
    parser.add_argument("--contains", metavar="TEXT", help="apply the rule only to requests with TEXT in path, query "
                                                           "or body")
    parser.add_argument("--nth", type=int, action="append", metavar="N",
                        help="apply the rule only to the Nth of these requests. You can give the option more than once")
    parser.add_argument("--times", type=int, metavar="N", help="apply the rule to at most N requests")
    parser.add_argument("--probability", type=float, metavar="P", help="apply the rule to each request with this "
                                                                       "probability")
    whole = parser.add_mutually_exclusive_group()
    whole.add_argument("--profile", choices=PROFILES, metavar="NAME", help="replace all rules by the rules of this "
                                                                           "profile")
    whole.add_argument("--file", metavar="FILE", help="replace all rules by the rules of a YAML file")
    whole.add_argument("--clear", action="store_true", help="remove all rules")
    parser.add_argument("--seed", type=int, help="seed of the random choices (default: a random seed)")
    parser.set_defaults(work=_work)


def words(rule: t.Mapping[str, t.Any]) -> str:
    """Return a rule with its counts as one line."""
    own = {k: v for k, v in rule.items() if k not in ("kind", "parameters", "matched", "applied")}
    given = {**own, **rule["parameters"]}
    shown = [f"{key}={value}" for key, value in given.items() if value not in ("", None, [], False)]
    return " ".join([rule["kind"], *shown, f"(matched {rule['matched']}, applied {rule['applied']})"])


def _work(options: argparse.Namespace, state: StateDir) -> int:
    if state.pid() is None:
        raise EmulatorError(f"no emulator runs in {state.path}. Start an emulator with the command up")
    url, trust = state.endpoint() or "", state.trust()
    told = ask_admin(url, trust, "/admin/faults")
    body = _wanted(options, told)
    if body is not None:
        told = ask_admin(url, trust, "/admin/faults", body=body)
    print(f"seed {told['seed']}")
    for rule in told["rules"]:
        print(words(rule))
    return 0


def _wanted(options: argparse.Namespace, told: dict[str, t.Any]) -> dict[str, t.Any] | None:
    """Return the faults to set, None to only show them."""
    seed = {} if options.seed is None else {"seed": options.seed}
    if options.clear:
        return seed
    if options.profile:
        return {"profile": options.profile, **seed}
    if options.file:
        document = yaml.safe_load(Path(options.file).read_text(encoding="utf-8"))
        return {**document, **seed} if isinstance(document, dict) else {"rules": document, **seed}
    if options.kind is None:
        return None
    return {"seed": told["seed"], "rules": [*map(_again, told["rules"]), _rule(options)], **seed}


def _again(rule: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return a rule in the form in which it is configured."""
    kept = {k: v for k, v in rule.items() if k not in ("parameters", "matched", "applied") and v not in ("", None, [])}
    return {**kept, **{k: v for k, v in rule["parameters"].items() if v is not None}}


def _rule(options: argparse.Namespace) -> dict[str, t.Any]:
    names = ("kind", "manager", "method", "path", "purpose", "contains", "nth", "times", "probability")
    rule = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    for text in options.parameters:
        name, equals, value = text.partition("=")
        if not equals:
            raise SpecError(text, "write a parameter as NAME=VALUE")
        rule[name] = yaml.safe_load(value)
    return rule
