# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the stand-ins of CoHDI's three parts have in common: a worker that repeats a pass over the whole cluster.

They are stand-ins: written from readings of upstream's sources, each oddity with its place there (CDD:
composable-dra-driver d30f6eb, DDS: dynamic-device-scaler 25b3beb, CRO: composable-resource-operator 38251b7). They have
the lab administrator's permissions, and FM is asked through our driver, whose requests are the same as theirs.
"""

from __future__ import annotations

import threading
import typing as t
from collections.abc import Sequence

from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.errors import FabricError
from ansible_collections.composable.infra.plugins.module_utils.kube.api_resources import ApiResource
from ansible_collections.composable.infra.plugins.module_utils.kube.errors import ApiError
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.reflector import Reflector
from ansible_collections.composable.infra.plugins.module_utils.kube.watch.store import Store
from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import EngineConfig

Json = dict[str, t.Any]
PREFIX = "cohdi.io"


class PassFailed(Exception):
    """A pass ends here, for all nodes, as upstream's do."""


class Part:
    """One worker. ``tick``: seconds between two passes; an event of a watched kind begins one at once.

    ``troubles``: why passes ended early; the next tick tries again, while upstream waits
    longer and longer.
    """

    watched: t.ClassVar[Sequence[ApiResource]] = ()

    def __init__(self, stage: Stage, tick: float) -> None:
        self.client, self.tick = stage.client, tick
        config = EngineConfig.load(str(stage.config_path))
        self.models, self.manager = config.settings.models, connect(config.fabric)
        self.troubles: list[str] = []
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._reflectors = [Reflector(self.client, kind, Store({}), self._woken) for kind in self.watched]

    def start(self) -> t.Self:
        for reflector in self._reflectors:
            reflector.start()
        self._thread.start()
        return self

    def stop(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._thread.join(30)
        for reflector in self._reflectors:
            reflector.stop()
        self.manager.close()

    def look(self) -> None:
        """One pass."""
        raise NotImplementedError

    def _woken(self, *_change: object) -> None:
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                self.look()
            except (ApiError, FabricError, PassFailed) as error:
                self.troubles.append(f"{type(error).__name__}: {error}")
                self._stopping.wait(self.tick)
            else:
                self._wake.wait(self.tick)


def annotated(item: Json, name: str) -> str:
    return str((item["metadata"].get("annotations") or {}).get(f"{PREFIX}/{name}") or "")


def machine_of(node: Json) -> str:
    """The text after the last slash of providerID; empty for a node without one."""
    return str(node["spec"].get("providerID") or "").rpartition("/")[2]
