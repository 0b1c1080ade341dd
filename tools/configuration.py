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
# The page that shows how to use a key.
GUIDES = {"device_info": "quickstart.md#2-write-the-configuration", "fabric": "guides/connect-a-manager.md",
          "node_operations": "guides/node-agent.md",
          "kube_api_qps": "guides/operating.md#limit-requests-to-the-api-server",
          "handover": "handover.md", "unserved": "gated.md#which-pod-first", "allocation_policy": "gated.md#which-node",
          "hold_timeout": "gated.md#how-long-a-pod-waits", "gone_node_power": "guides/alerts.md#a-node-is-gone",
          "max_group_size": "guides/groups.md", "prewarm": "guides/prewarm.md", "namespace_quotas": "guides/quotas.md",
          "other-driver-names": "guides/moving-drivers.md", "capacity": "guides/share-a-device.md",
          "bar-size": "guides/locality.md#room-for-memory-windows",
          "machines": "guides/redfish.md#servers-that-the-service-does-not-show",
          "driver_options": "guides/write-a-driver.md"}
HEAD = """\
# Configuration

This page lists every key of the configuration. It is for platform administrators. The controllers, the rulebook, the
playbooks (`config`, `config_path`), the modules `scale`, `claim_info` and `device_pool`, and `controllers_config` of
the role `controllers` take the same keys.

Numbers without a range are at most 86400. An AWX survey can set a key with
`config: "{{ my_config | combine({'hold_timeout': survey_hold_timeout}) }}"`. Don't ask for keys of `fabric`, because a
respondent could redirect credentials.
"""
SANITY = re.compile(r" ?(?:From [01] to|Above 0, up to) 86400\.")
"""The range of most numbers, which the page says once."""
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
            parts += [f"## Keys of `{name}`\n", table(option["suboptions"])]
    return "\n".join(parts)


def table(options: Mapping[str, Option]) -> str:
    """Return a table with one row for each option."""
    rows = ["| Key | Type | Default | Meaning |", "|---|---|---|---|"]
    return "\n".join([*rows, *(row(name, option) for name, option in options.items())]) + "\n"


def row(name: str, option: Option) -> str:
    """Return the row of an option: name, type, default, and description with choices and guide."""
    kind = f"list of {option['elements']}" if option["type"] == "list" else option["type"]
    guide = [f"[More]({GUIDES[name]})"] if name in GUIDES else []
    cells = [f"`{name}`", kind, default(option), " ".join([*sentences(option), *guide])]
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def default(option: Option) -> str:
    """Return the default as JSON, `required`, or an empty string."""
    if option.get("required"):
        return "required"
    return f"`{json.dumps(option['default'])}`" if "default" in option else ""


def sentences(option: Option) -> Iterator[str]:
    """Yield the description without Ansible's markup, then the choices that it does not name."""
    found = option["description"]
    said = [plain(text) for text in ([found] if isinstance(found, str) else found)]
    yield from filter(None, (SANITY.sub("", text) for text in said))
    choices = [f"`{choice}`" for choice in option.get("choices", ())]
    if any(choice not in " ".join(said) for choice in choices):
        yield f"One of {', '.join(choices)}."


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
