# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real nodes: the role `controllers` creates a Deployment of the controllers and a DaemonSet of
node agents.

The role runs as on any cluster. Only the image is a stand-in, see `lab/real_nodes/python_image.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible_collections.composable.infra.lab.demo.front_doors import PACKAGE, collections_root, environment
from ansible_collections.composable.infra.lab.demo.stage import Stage
from ansible_collections.composable.infra.lab.errors import LabError
from ansible_collections.composable.infra.lab.real_nodes.images import COLLECTION

Json = dict[str, t.Any]
NAMESPACE = "composable-infra"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONTROLLERS, AGENTS = "controllers", "node-agent"
_SECRET = ("username", "password", "realm", "client_id", "client_secret")
_SECONDS = 120


class Installed:
    """The installation by the role. It ends with the lab."""

    name = "controller"

    def __init__(self, stage: Stage, *components: str, **variables: t.Any) -> None:
        """Run the role and wait until all pods are ready. Raise LabError with the output of the
        role.

        ``variables`` are further variables of the role.
        """
        self._api = stage.lab.api
        self.output = _run_role(stage, components, variables)

    def pods(self, component: str) -> list[Json]:
        """Return the running pods of CONTROLLERS or AGENTS from the API server."""
        found = self._api.get(f"{PODS}?labelSelector=app.kubernetes.io/component%3D{component}")["items"]
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    def text(self) -> str:
        """Return the logs of all pods of the controllers and agents."""
        pods = [pod["metadata"]["name"] for component in (CONTROLLERS, AGENTS) for pod in self.pods(component)]
        return "\n".join(f"==> {name} <==\n{self._api.get(f'{PODS}/{name}/log')}" for name in pods)

    def stop(self) -> int:
        """Do nothing, because the nodes end with the lab."""
        return 0


def role_variables(stage: Stage) -> Json:
    """Return the variables of the role for this stage: its configuration, and the programs of this
    Python."""
    config = stage.config()
    fabric = dict(config["fabric"])
    secret = {key: fabric.pop(key) for key in _SECRET if key in fabric}
    secret["certificate"] = Path(fabric.pop("ca_path")).read_text(encoding="utf-8")
    return {
        "ansible_python_interpreter": sys.executable,
        "composable_kubeconfig": str(stage.lab.kubeconfig),
        "controllers_agent_dra_driver": stage.own_driver,
        "controllers_image": COLLECTION,
        "controllers_command": [sys.executable, "-m", f"{PACKAGE}.controller"],
        "controllers_agent_command": [sys.executable, "-m", f"{PACKAGE}.controller.agent"],
        "controllers_collections_path": str(collections_root()),
        "controllers_config": {**config, "fabric": fabric},
        "controllers_credentials": secret,
        "controllers_wait_timeout": _SECONDS,
    }


def _run_role(stage: Stage, components: t.Sequence[str], more: Json) -> str:
    variables = {**role_variables(stage), **more}
    if components:
        variables["controllers_components"] = list(components)
    play = [{"name": "Install", "hosts": "localhost", "connection": "local", "gather_facts": False,
             "roles": [{"role": "composable.infra.controllers"}]}]
    book, given = stage.folder / "install.json", stage.folder / "install-variables.json"
    book.write_text(json.dumps(play), encoding="utf-8")
    # The file has the credentials.
    given.touch(0o600)
    given.write_text(json.dumps(variables), encoding="utf-8")
    command = [str(Path(sys.executable).parent / "ansible-playbook"), str(book), "-e", f"@{given}"]
    done = subprocess.run(command, env=environment(stage), cwd=stage.folder, capture_output=True, text=True,
                          timeout=2 * _SECONDS, check=False)
    if done.returncode:
        raise LabError(f"the role controllers failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout
