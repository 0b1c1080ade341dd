# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""containerd's configuration on a real node, for containerd 2.3 (version 4 of the file)."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.composable.infra.lab.real_nodes.images import PAUSE
from ansible_collections.composable.infra.lab.real_nodes.node import RealNode

SOCKET = "/run/containerd/containerd.sock"
# Snapshots are copies, because many containers run on an overlay and overlays cannot be stacked.
SNAPSHOTTER = "native"
_CONFIGURATION = """version = 4
root = '/var/lib/containerd'
state = '/run/containerd'
disabled_plugins = ['io.containerd.nri.v1.nri']
[plugins.'io.containerd.server.v1.grpc']
  address = '{socket}'
[plugins.'io.containerd.server.v1.ttrpc']
  address = '{socket}.ttrpc'
[plugins.'io.containerd.internal.v1.opt']
  path = '/run/containerd/opt'
[plugins.'io.containerd.cri.v1.images']
  snapshotter = '{snapshotter}'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{pause}'
[plugins.'io.containerd.cri.v1.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = {restrict}
  netns_mounts_under_state_dir = true
  enable_cdi = true
  cdi_spec_dirs = ['/etc/cdi', '/var/run/cdi']
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = '{runtime}'
      SystemdCgroup = false
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{bin}']
    conf_dir = '{cni}'
"""


def configuration(node: RealNode, runtime: str, *, lower_oom_scores: bool) -> str:
    """Return the file for `node`.

    `runtime` is a program in its `bin`. `lower_oom_scores` says whether the machine allows lower
    scores.
    """
    return _CONFIGURATION.format(
        socket=SOCKET,
        snapshotter=SNAPSHOTTER,
        pause=PAUSE,
        restrict=str(not lower_oom_scores).lower(),
        runtime=node.bin / runtime,
        bin=node.bin,
        cni=node.folder / "cni",
    )


def command(node: RealNode) -> list[str]:
    """Return the command of containerd."""
    return [str(node.bin / "containerd"), "--config", str(node.config("containerd.toml"))]


def import_command(node: RealNode, archive: Path) -> list[str]:
    """Return the command that imports the images of an archive into containerd."""
    program = [str(node.bin / "ctr"), "-a", SOCKET, "-n", "k8s.io"]
    return [*program, "images", "import", "--local", "--snapshotter", SNAPSHOTTER, str(archive)]
