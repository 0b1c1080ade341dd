# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Arguments for a module that runs within the test's process."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from unittest import mock

from ansible.module_utils import basic


@contextmanager
def patch_module_args(args: Mapping[str, t.Any]) -> Iterator[None]:
    """Give `args` to each AnsibleModule that is made meanwhile.

    ansible-core has such a function since 2.19. This one works with each version that we support.
    """
    given = json.dumps({"ANSIBLE_MODULE_ARGS": dict(args)}).encode()
    with (mock.patch.object(basic, "_ANSIBLE_ARGS", given),
          mock.patch.object(basic, "_ANSIBLE_PROFILE", "legacy", create=True)):
        yield
