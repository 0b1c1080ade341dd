# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The emulator's page for people, with all devices and machines.

It has no script and loads no other file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape

from ..pool.pool import DevicePool, PooledDevice

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"><meta http-equiv="refresh" content="2">
<title>CDI Manager emulator</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222 }}
table {{ border-collapse: collapse; margin-bottom: 2rem; width: 100% }}
th, td {{ border-bottom: 1px solid #ccc; padding: .25rem .75rem .25rem 0; text-align: left }}
.attaching, .detaching, .Warning {{ color: #a60 }} .attached {{ color: #060 }} .Critical {{ color: #b00 }}
</style>
</head>
<body>
<h1>CDI Manager emulator</h1>
<p>Attach takes {attach:g} s, detach {detach:g} s.
<a href="/admin/state">State</a> and <a href="/admin/log">requests</a> as JSON.</p>
<h2>Models</h2>{models}
<h2>Machines</h2>{machines}
<h2>Devices</h2>{devices}
</body>
</html>
"""


def render(pool: DevicePool) -> str:
    """Return the page for the current state of the pool."""
    return _PAGE.format(
        attach=pool.attach_time, detach=pool.detach_time, models=_models(pool), machines=_machines(pool),
        devices=_devices(pool),
    )


def _models(pool: DevicePool) -> str:
    total = Counter((d.spec.model, d.spec.fabric) for d in pool.devices.values())
    free = Counter((d.spec.model, d.spec.fabric) for d in pool.devices.values() if d.machine is None)
    heads = ["Model", "Fabric", "Free", "All"]
    return _table(heads, ([*key, free[key], total[key]] for key in sorted(total)))


def _machines(pool: DevicePool) -> str:
    held = Counter(d.machine for d in pool.devices.values())
    heads = ["Machine", "UUID", "Fabric", "Devices"]
    return _table(heads, ([m.name, m.uid, m.fabric, held[m.uid]] for m in pool.machines.values()))


def _devices(pool: DevicePool) -> str:
    return _table(
        ["Slot", "Name", "Model", "Serial", "Fabric", "State", "Health", "Machine"],
        (_device(pool, device) for device in pool.devices.values()),
    )


def _device(pool: DevicePool, device: PooledDevice) -> list[object]:
    spec = device.spec
    machine = pool.machines[device.machine].name if device.machine else ""
    return [spec.slot, spec.name, spec.model, spec.serial, spec.fabric, device.state, device.health, machine]


def _table(heads: list[str], rows: Iterable[list[object]]) -> str:
    head = "".join(f"<th>{escape(text)}</th>" for text in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>\n" for row in rows)
    return f"<table>\n<tr>{head}</tr>\n{body}</table>"


def _cell(value: object) -> str:
    text = "none" if value is None else escape(str(value))
    return f'<td class="{text}">{text}</td>' if text.isalpha() else f"<td>{text}</td>"
