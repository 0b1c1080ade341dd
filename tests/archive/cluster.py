# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A program: a cluster with simulated nodes and a CDI Manager, from the lab and emulator of an installed collection.

Arguments: a file with the configuration that a page shows, a folder for `kubeconfig` and `config.yml`, and the name of
the CDI Manager if it is another one than in that file. `config.yml` is the configuration with the emulator's
connection. The program prints `ready` and runs until its input ends.
"""

from __future__ import annotations

import shutil
import sys
import typing as t
from pathlib import Path

import yaml

from ansible_collections.composable.infra.emulator import Emulator, simple_spec
from ansible_collections.composable.infra.lab.control_plane.cluster import Lab, LabOptions

MODELS = [{"name": "A100 40G", "product_name": "NVIDIA A100-PCIE-40GB", "memory": "40Gi", "vendor_id": "10de",
           "device_id": "20f1", "bars": ["16Mi", "64Gi", "32Mi"]}]
NODES, DEVICES = 2, 4


def main(shown: Path, folder: Path, other: str = "") -> None:
    """Run until the input ends."""
    config: dict[str, t.Any] = yaml.safe_load(shown.read_text(encoding="utf-8"))
    manager = other or str(config["fabric"]["manager"])
    with Lab.up(LabOptions(nodes=NODES)) as lab:
        models = {str(model["name"]): DEVICES for model in MODELS}
        spec = {**simple_spec(list(lab.nodes), models, attach=0.2, detach=0.2), "models": MODELS, "managers": [manager]}
        with Emulator.run(spec, folder / "emulator", lab.address) as emulator:
            lab.attach_hardware(emulator.url, Path(emulator.ca_path), plugin_start=0.05)
            lab.start_agents()
            config["fabric"] = emulator.fabric_config(manager=manager)
            (folder / "config.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
            shutil.copyfile(lab.kubeconfig, folder / "kubeconfig")
            print("ready", flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
