# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Body of the module ``fabric_conformance``. A driver's collection can offer it by its own name."""

from __future__ import annotations

from .. import fabric_module, module_base
from ..fabric.config import FabricConfig
from ..fabric.conformance import checks, report
from ..fabric.conformance.subject import Subject
from ..fabric.connect import connect
from ..fabric.errors import BadConfiguration
from ..fabric.external import entry_of

SPEC = {
    "argument_spec": {
        **fabric_module.FABRIC_OPTIONS,
        "machine": {"type": "str"},
        "model": {"type": "str"},
        "at_most": {"type": "int", "default": 2},
        "memory_model": {"type": "str"},
        "scarce_model": {"type": "str"},
        "sick_model": {"type": "str"},
        "foreign_machine": {"type": "str"},
        "names": {"type": "list", "elements": "str", "default": []},
        "devices": {"type": "int", "default": 0},
        "patience": {"type": "float", "default": 60.0},
    },
    "required_together": [("machine", "model")],
    "supports_check_mode": True,
}


def work(given: module_base.TaskContext) -> dict[str, object]:
    """Run the checks and return their results as data, Markdown and JUnit XML."""
    params = given.params
    for name, least in (("at_most", 1), ("devices", 0), ("patience", 0)):
        if params[name] < least:
            raise BadConfiguration(name, params[name], f"it must be {least} or more")
    config = FabricConfig.from_dict({k: params[k] for k in fabric_module.FABRIC_OPTIONS if params.get(k) is not None})
    subject = _subject(given, config)
    try:
        checks.reachable(subject)
        results = checks.run(subject)
    finally:
        subject.fabric.close()
    return {
        "changed": False, "summary": report.summary(results), "results": [_told(r) for r in results],
        "failed_checks": [r.check.title for r in results if r.outcome == checks.FAILED],
        "markdown": report.markdown(config.manager, config.endpoint, results),
        "junit": report.junit(config.manager, results),
    }


def _subject(given: module_base.TaskContext, config: FabricConfig) -> Subject:
    params = given.params
    return Subject(
        fabric=connect(config), connect=lambda: connect(config), machine=params["machine"], model=params["model"],
        changes=not given.check_mode, at_most=params["at_most"], memory=params["memory_model"],
        scarce=params["scarce_model"], sick=params["sick_model"], foreign=params["foreign_machine"],
        tenants="tenant" in entry_of(config.manager).requires, names=tuple(params["names"]),
        devices=params["devices"], attach_deadline=config.attach_timeout, patience=params["patience"],
    )


def _told(result: checks.Result) -> dict[str, object]:
    check = result.check
    return {"name": check.name, "title": check.title, "means": check.means, "changes": check.changes,
            "outcome": result.outcome, "words": result.words, "seconds": round(result.seconds, 3)}


def main() -> None:
    """Run the module."""
    module_base.main(SPEC, work)
