#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return who had which GPU for how long, and what it costs, from the sums that the controllers store."""

from __future__ import annotations

DOCUMENTATION = r"""
module: usage
short_description: GPU-hours, idle GPU-hours, attaches and their cost in a period
version_added: 0.1.0
description:
  - Reads the sums that the controllers store in the ConfigMap C(composable-infra-usage), at most a minute old.
  - The sums of the last 48 hours are by hour, those of 62 days by day (UTC). A period is rounded outward to hours or
    days, and the result names the period that it covers.
  - A claim has a device from its allocation until it is deallocated. An attached device that no claim has is idle.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.cluster
  - composable.infra.cluster.login
options:
  from:
    description:
      - Start of the period, a time or date of RFC 3339 (UTC without an offset), or seconds since 1970. The default is a
        day before O(to).
    type: str
  to:
    description: End of the period, in the same form. By default the time up to which the controllers have counted.
    type: str
  by:
    description: Fields that divide the rows.
    type: list
    elements: str
    choices: [namespace, model, label]
    default: [namespace, model, label]
  namespace:
    description: Return rows of this namespace only. The totals are those of all namespaces.
    type: str
  rates:
    description:
      - Price of one hour of a device, a mapping of models to a number from 0 to 1000000, such as the setting
        C(usage_rates) of the configuration.
      - Without a rate, the cost of a model is V(null).
    type: dict
    default: {}
  currency:
    description: Currency of the rates.
    type: str
    default: ""
  controllers_namespace:
    description: Namespace of the controllers, C(lease_namespace) of their configuration.
    type: str
    default: composable-infra
attributes:
  check_mode:
    description: Can run in check mode, because the module only reads.
    support: full
  diff_mode:
    description: There is nothing to compare, the module only reads.
    support: none
  platform:
    description: Runs where Python and the network path to the API server are.
    platforms: posix
    support: full
seealso:
  - module: composable.infra.claim_info
"""

EXAMPLES = r"""
- name: Who used which GPU in October?
  composable.infra.usage:
    from: "2026-10-01"
    to: "2026-11-01"
    by: [namespace, model]
    rates: {NVIDIA-A100-PCIE-40GB: 2.5, NVIDIA-H100-PCIe: 6}
    currency: EUR
  register: october

- name: Write it for the accounting department
  ansible.builtin.copy:
    content: "{{ october.csv }}"
    dest: usage-2026-10.csv
    mode: "0644"
"""

RETURN = r"""
from:
  description: Begin of the covered period, in seconds since 1970.
  returned: success
  type: float
  sample: 1790812800.0
to:
  description: End of the covered period, in seconds since 1970.
  returned: success
  type: float
  sample: 1793491200.0
since:
  description: When the controllers began to count, in seconds since 1970, V(0) if they have not.
  returned: success
  type: float
  sample: 1788220800.0
until:
  description: Up to when the controllers have counted, in seconds since 1970.
  returned: success
  type: float
  sample: 1793491260.0
by:
  description: Fields that divide the rows.
  returned: success
  type: list
  elements: str
  sample: [namespace, model]
currency:
  description: Currency of the costs.
  returned: success
  type: str
  sample: EUR
uncertain_hours:
  description:
    - GPU-hours since the controllers began to count that claims may have had devices in addition, because no controller
      ran when they ended.
  returned: success
  type: float
  sample: 0.0
rows:
  description: Usage by the fields of O(by), sorted.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description:
        - Namespace of the claims. It is empty for idle time and attaches for no claim, and C((other)) for what is
          beyond 200 namespaces and labels in a day.
      type: str
    model:
      description: Model, as the CDI Manager names it.
      type: str
    label:
      description: Value of the pods' label that the setting C(usage_label) names.
      type: str
    gpu_hours:
      description: Hours that claims had devices.
      type: float
    idle_gpu_hours:
      description: Hours that attached devices were idle.
      type: float
    cost:
      description: Rate times both, V(null) if a model of the row has no rate.
      type: float
    currency:
      description: Currency of the cost.
      type: str
    attaches:
      description: Devices that were attached for claims of the row.
      type: int
  sample:
    - namespace: training
      model: NVIDIA-A100-PCIE-40GB
      label: ""
      gpu_hours: 412.5
      idle_gpu_hours: 0.0
      cost: 1031.25
      currency: EUR
      attaches: 31
totals:
  description: The sums of all namespaces by model.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: Empty.
      type: str
    model:
      description: Model, as the CDI Manager names it.
      type: str
    label:
      description: Empty.
      type: str
    gpu_hours:
      description: Hours that claims of all namespaces had devices.
      type: float
    idle_gpu_hours:
      description: Hours that attached devices were idle.
      type: float
    cost:
      description: Rate times both, V(null) if the model has no rate.
      type: float
    currency:
      description: Currency of the cost.
      type: str
    attaches:
      description: Devices that were attached.
      type: int
  sample:
    - namespace: ""
      model: NVIDIA-A100-PCIE-40GB
      label: ""
      gpu_hours: 412.5
      idle_gpu_hours: 20.25
      cost: 1081.875
      currency: EUR
      attaches: 31
csv:
  description: The rows as CSV (RFC 4180) with a header.
  returned: success
  type: str
  sample: "namespace,model,label,gpu_hours,idle_gpu_hours,cost,currency,attaches\r\n"
"""

import math
import typing as t
from contextlib import closing

from ansible_collections.composable.infra.plugins.module_utils import cluster_module, module_base
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import CONFIG_MAPS
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.report import (
    FIELDS,
    BadPeriod,
    Rates,
    as_csv,
    of_period,
)
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.settings import MOST_RATE
from ansible_collections.composable.infra.plugins.module_utils.planning.accounting.sums import FIELD, NAME, of_text

SPEC: dict[str, t.Any] = {
    "argument_spec": {
        **cluster_module.CLUSTER_OPTIONS,
        "from": {"type": "str"},
        "to": {"type": "str"},
        "by": {"type": "list", "elements": "str", "choices": list(FIELDS), "default": list(FIELDS)},
        "namespace": {"type": "str"},
        "rates": {"type": "dict", "default": {}},
        "currency": {"type": "str", "default": ""},
        "controllers_namespace": {"type": "str", "default": "composable-infra"},
    },
    "supports_check_mode": True,
}


def work(task: module_base.TaskContext) -> dict[str, t.Any]:
    """Read the sums and return the usage of the period. Write nothing.

    Return ``failed`` if an option or the ConfigMap cannot be used. Raise ApiError.
    """
    params = task.params
    where = f"ConfigMap {params['controllers_namespace']}/{NAME}"
    try:
        rates = Rates({model: _rate(model, rate) for model, rate in params["rates"].items()}, params["currency"])
        with closing(cluster_module.cluster(params)) as client:
            raw = client.get(CONFIG_MAPS, NAME, params["controllers_namespace"])
        stored = of_text(str((raw.get("data") or {}).get(FIELD) or ""))
        found = of_period(stored, params["from"] or "", params["to"] or "", ",".join(params["by"]), rates,
                          params["namespace"])
    except BadPeriod as error:
        return {"failed": True, "msg": str(error), "error": "BadOption"}
    except ValueError as error:
        return {"failed": True, "msg": f"{where} cannot be used: {error}", "error": "NotUsable"}
    return {**found, "csv": as_csv(found["rows"])}


def _rate(model: str, rate: object) -> float:
    """Return a rate, also from a text, because Jinja makes texts. Raise BadPeriod."""
    try:
        found = float(rate) if isinstance(rate, (str, int, float)) and not isinstance(rate, bool) else math.nan
    except ValueError:
        found = math.nan
    if not 0 <= found <= MOST_RATE:
        raise BadPeriod(f"rates.{model}: {rate!r} is not usable: must be a number from 0 to {MOST_RATE}")
    return found


def main() -> None:
    """Run the module."""
    module_base.main(SPEC, work)


if __name__ == "__main__":
    main()
