# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write docs/configuration.md from the documentation of the option ``config``:
`make configuration-page`."""

from __future__ import annotations

import json
import re
import sys
import typing as t
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from ansible_collections.composable.infra.plugins.doc_fragments.config import ModuleDocFragment

PAGE = Path(__file__).resolve().parents[1] / "docs" / "configuration.md"
Option = Mapping[str, t.Any]
# Answer types of an AWX survey. Lists and mappings are YAML in a text area.
ANSWERS = {"str": "text", "path": "text", "int": "integer", "float": "float", "bool": "multiplechoice",
           "dict": "textarea", "list": "textarea"}
HEAD = """\
# Configuration

This page lists every key of the configuration. It is for platform administrators. The same keys are in the file of the
controllers, the option `config` of the modules `scale`, `claim_info` and `device_pool`, the variable `config` of the
playbooks, the file `config_path` of the rulebook, and `controllers_config` of the role `controllers`.
`make configuration-page` writes the page from the text of `ansible-doc composable.infra.scale`.

If a key is unknown or a value is not allowed, the configuration is refused with one sentence that names the key, the
value and what is allowed.

To let an AWX survey ask for a key, use the type of question in the column *Survey*. A survey sets a variable of its
own, and `config` takes it: `config: "{{ my_config | combine({'hold_timeout': survey_hold_timeout}) }}"`. The answer of
a `textarea` is YAML: `survey_quotas | from_yaml`. Don't ask for keys of `fabric`, because a respondent could redirect
credentials. Use the credential type that the role `awx` creates.
"""
EXAMPLE = """\
## Smallest configuration

<!-- configuration -->
```yaml
device_info:
  - index: 1
    cdi-model-name: A100 40G
    k8s-device-name: nvidia-a100-40g
    driver-name: gpu.nvidia.com
    dra-attributes: {type: gpu, productName: NVIDIA A100-PCIE-40GB, uuid: ""}
fabric:
  manager: redfish
  endpoint: https://composition.example.com
  username: gpu
  password: correct-horse
```
"""


def reference() -> dict[str, Option]:
    """Return the documented keys of the configuration by name, with description, type, default and
    choices."""
    config: Option = yaml.safe_load(ModuleDocFragment.DOCUMENTATION)["options"]["config"]
    return dict(config["suboptions"])


def page() -> str:
    """Return the whole page."""
    options = reference()
    parts = [HEAD, EXAMPLE, "## Keys\n", table(options)]
    for name, option in options.items():
        if "suboptions" in option:
            parts += [f"## Keys of `{name}`\n", table(option["suboptions"], name)]
    return "\n".join(parts)


def table(options: Mapping[str, Option], of: str = "") -> str:
    """Return a table with one row for each option of the mapping ``of``."""
    rows = ["| Key | Type | Default | Survey | Meaning |", "|---|---|---|---|---|"]
    return "\n".join([*rows, *(row(name, option, of or name) for name, option in options.items())]) + "\n"


def row(name: str, option: Option, group: str) -> str:
    """Return the row of an option: name, type, default, question type, and description with
    choices."""
    kind = f"list of {option['elements']}" if option["type"] == "list" else option["type"]
    cells = [f"`{name}`", kind, default(option), question(option, group), " ".join(sentences(option))]
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def default(option: Option) -> str:
    """Return the default as JSON, `required`, or an empty string."""
    if option.get("required"):
        return "required"
    return f"`{json.dumps(option['default'])}`" if "default" in option else ""


def question(option: Option, group: str) -> str:
    """Return the type of the survey's question."""
    if group == "fabric":
        return "credential"
    return "multiplechoice" if "choices" in option else ANSWERS[option["type"]]


def sentences(option: Option) -> Iterator[str]:
    """Yield the description without Ansible's markup, then the choices."""
    found = option["description"]
    yield from (plain(text) for text in ([found] if isinstance(found, str) else found))
    if "choices" in option:
        yield f"One of {', '.join(f'`{choice}`' for choice in option['choices'])}."


def plain(text: str) -> str:
    """Return Ansible's markup as Markdown."""
    return re.sub(r"\b[CVOME]\(([^)]*)\)", r"`\1`", text)


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
