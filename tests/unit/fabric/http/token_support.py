# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of `test_token.py` and others share."""

from __future__ import annotations

import base64
import json
import typing as t


def jwt(**payload: t.Any) -> str:
    parts = ({"alg": "HS256"}, payload)
    return ".".join(base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=").decode() for p in parts) + ".c2ln"


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now
