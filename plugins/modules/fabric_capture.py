#!/usr/bin/python
# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capture cluster and fabric for later what-if questions."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_capture
short_description: Write the state of a cluster and its fabric into a file, for M(composable.infra.fabric_whatif)
version_added: 0.1.0
description:
  - Reads what the controllers read, objects of the cluster and the machines and free devices of the CDI Manager. Writes
    it into one JSON file that only its owner can read.
  - The file has names, uids, labels and amounts. It has no Secret, no environment variable, no
    command and no credential. The return value C(left_out) lists the omitted data.
  - Neither cluster nor fabric is changed.
author:
  - composable.infra contributors (@composable-infra)
extends_documentation_fragment:
  - composable.infra.config
  - composable.infra.cluster
  - composable.infra.cluster.login
options:
  path:
    description: File to write. An existing file is replaced, and the new file has mode V(0600).
    type: path
    required: true
attributes:
  check_mode:
    description: Reads everything, and writes no file.
    support: full
  diff_mode:
    description: A capture is not compared with another one.
    support: none
  platform:
    description: Runs where Python and the network paths to API server and CDI Manager are.
    platforms: posix
    support: full
seealso:
  - module: composable.infra.fabric_whatif
"""

EXAMPLES = r"""
- name: Capture the cluster and its fabric
  composable.infra.fabric_capture:
    config_path: /etc/composable-infra/config.yml
    path: /var/tmp/capture.json
"""

RETURN = r"""
path:
  description: The file.
  returned: success
  type: str
  sample: /var/tmp/capture.json
version:
  description: Version of the file's format.
  returned: success
  type: int
  sample: 1
taken:
  description: When the cluster was read, in seconds since the epoch.
  returned: success
  type: float
  sample: 1767323045.0
objects:
  description: How many objects of each kind were captured, by the plural of the kind.
  returned: success
  type: dict
  sample: {nodes: 2, pods: 14, resourceclaims: 3}
machines:
  description: How many machines the CDI Manager showed.
  returned: success
  type: int
  sample: 2
problems:
  description: Questions that the CDI Manager could not answer.
  returned: success
  type: list
  elements: str
  sample: []
arrivals:
  description:
    - Claims of the last days in the capture. C(known) counts the claims with a creation time,
      C(with_lifetime) the claims with a known lifetime of their pod, C(served) the claims that the
      controllers counted in the last day. C(notes) lists the parts that could not be read.
  returned: success
  type: dict
  contains:
    known:
      description: Claims of which the moment is known.
      type: int
    with_lifetime:
      description: Claims of which it is also known for how long their pod ran.
      type: int
    served:
      description: Claims that the controllers counted in the last day.
      type: int
    notes:
      description: Parts that could not be read.
      type: list
      elements: str
  sample: {known: 41, with_lifetime: 12, served: 230, notes: []}
left_out:
  description: Data that a capture never has.
  returned: success
  type: list
  elements: str
  sample: ["parameters of drivers in ResourceClaims and DeviceClasses"]
"""

from ansible_collections.composable.infra.plugins.module_utils.bodies.fabric_capture import main

if __name__ == "__main__":
    main()
