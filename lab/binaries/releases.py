# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases that the lab can run, and what each needs for binding conditions and device taint
rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ansible_collections.composable.infra.lab.errors import LabError

KUBERNETES_COMPONENTS = ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
COMPONENTS = ("etcd", *KUBERNETES_COMPONENTS, "kwok")
CONTAINERD_COMPONENTS = ("containerd", "containerd-shim-runc-v2", "ctr")
CNI_COMPONENTS = ("loopback", "ptp", "host-local")
# Programs of a real node besides the binaries of the control plane.
NODE_COMPONENTS = ("kubelet", *CONTAINERD_COMPONENTS, *CNI_COMPONENTS, "runc")
DEFAULT_SERIES = "1.37"
# API version in which a pod names its PodGroup. In 1.35 it names a Workload, which is a different
# API.
GANG_API: Mapping[str, str] = {"1.36": "scheduling.k8s.io/v1alpha2", "1.37": "scheduling.k8s.io/v1beta1"}
# In 1.37 GenericWorkload includes GangScheduling. A component with an unknown gate does not start.
_GANG_GATES: Mapping[str, tuple[str, ...]] = {
    "1.36": ("DRAWorkloadResourceClaims", "GangScheduling", "GenericWorkload"),
    "1.37": ("DRAWorkloadResourceClaims", "GenericWorkload"),
}
_VERSION = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Release:
    """A Kubernetes release with the etcd, kwok, containerd, runc and CNI plugins for the lab.

    Versions have no leading "v". Gates are per component, with values as on the command line.
    `controllers` names further controllers of kube-controller-manager beside the usual ones of the
    lab.
    """

    kubernetes: str
    go: str
    etcd: str = "3.6.8"
    kwok: str = "0.8.0"
    containerd: str = "2.3.7"
    cni: str = "1.9.1"
    runc: str = "1.5.1"
    gates: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    runtime_config: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    binding_timeout: bool = True

    @property
    def series(self) -> str:
        """Return the major and minor version, for example "1.36"."""
        return ".".join(self.kubernetes.split(".")[:2])

    @property
    def staging(self) -> str:
        """Return the version of this release's staging modules (1.X.Y is published as 0.X.Y)."""
        return "0." + self.kubernetes.split(".", 1)[1]

    def version_of(self, component: str) -> str:
        """Return the required version of `component` (one of COMPONENTS or NODE_COMPONENTS)."""
        versions = {"etcd": self.etcd, "kwok": self.kwok, "runc": self.runc}
        versions.update(dict.fromkeys(CONTAINERD_COMPONENTS, self.containerd))
        versions.update(dict.fromkeys(CNI_COMPONENTS, self.cni))
        return versions.get(component, self.kubernetes)

    def feature_gates(self, component: str) -> str:
        """Return the value of --feature-gates for `component`, or ""."""
        gates = self.gates.get(component, {})
        return ",".join(f"{name}={str(on).lower()}" for name, on in sorted(gates.items()))

    def plain(self) -> Release:
        """Return the release without feature gates or APIs that are off by default."""
        return replace(self, gates={}, runtime_config=())

    def with_gangs(self) -> Release:
        """Return the release with the scheduler's gang scheduling (KEP-4671), and claims of a gang
        (KEP-5729).

        Both are off by default. Raise LabError if the release has none.
        """
        if self.series not in GANG_API:
            raise LabError(f"Kubernetes {self.kubernetes} has no gang scheduling that the lab knows: use one of "
                           f"{', '.join(GANG_API)}")
        gates = {name: {**self.gates.get(name, {}), **dict.fromkeys(_GANG_GATES[self.series], True)}
                 for name in KUBERNETES_COMPONENTS}
        return replace(self, gates=gates, runtime_config=(*self.runtime_config, f"{GANG_API[self.series]}=true"),
                       controllers=("podgroup-protection-controller",))


def _same_gates(*names: str) -> dict[str, dict[str, bool]]:
    return {component: dict.fromkeys(names, True) for component in KUBERNETES_COMPONENTS}


_V1ALPHA3, _V1BETA2 = "resource.k8s.io/v1alpha3=true", "resource.k8s.io/v1beta2=true"

RELEASES: Mapping[str, Release] = {
    release.series: release
    for release in (
        Release(
            "1.34.4",
            "1.24.0",
            gates=_same_gates("DRADeviceBindingConditions", "DRADeviceTaints"),
            binding_timeout=False,
            runtime_config=(_V1ALPHA3,),
        ),
        # Rules have their own gate from 1.35 on. 1.34 does not know the gate and would not start
        # with it.
        Release(
            "1.35.4",
            "1.25.0",
            gates=_same_gates("DRADeviceBindingConditions", "DRADeviceTaints", "DRADeviceTaintRules"),
            runtime_config=(_V1ALPHA3,),
        ),
        Release(
            "1.36.3",
            "1.26.0",
            gates=_same_gates("DRADeviceTaintRules"),
            runtime_config=(_V1ALPHA3, _V1BETA2),
        ),
        Release("1.37.2", "1.26.0"),
    )
}


def find_release(wanted: str) -> Release:
    """Return the release for "1.36", "1.36.x" or an exact "1.36.3" (also with "v").

    Raise LabError with the allowed versions.
    """
    match = _VERSION.fullmatch(wanted.strip().removesuffix(".x"))
    series = f"{match[1]}.{match[2]}" if match else ""
    if match is None or series not in RELEASES:
        allowed = ", ".join(release.kubernetes for release in RELEASES.values())
        raise LabError(f"Kubernetes {wanted!r} is not known to the lab: use one of {allowed}, or 1.NN.x")
    known = RELEASES[series]
    return known if match[3] is None else replace(known, kubernetes=f"{series}.{match[3]}")
