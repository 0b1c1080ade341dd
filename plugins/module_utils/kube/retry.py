# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a failed request may be sent again, and after how long."""

from __future__ import annotations

import random

from .errors import ApiError, Unavailable, Unreachable

_UNSENT_TRIES = 3
_THROTTLED_TRIES = 10
_FIRST_DELAY = 0.1
_LONGEST_DELAY = 10.0


def next_delay(error: ApiError, method: str, tries: int) -> float | None:
    """Seconds to wait before the next try after ``tries`` failed ones, None when there must be none.

    As in client-go a throttled or unavailable server is asked again when it says when; anything else is repeated
    only if it surely had no effect.
    """
    if error.retry_after is not None and (error.status == 429 or error.status >= 500):
        wanted = min(max(error.retry_after, _FIRST_DELAY), _LONGEST_DELAY)
        return _jittered(wanted) if tries < _THROTTLED_TRIES else None
    if tries >= _UNSENT_TRIES or not _had_no_effect(error, method):
        return None
    return _jittered(_FIRST_DELAY * 4 ** (tries - 1))


def _had_no_effect(error: ApiError, method: str) -> bool:
    if isinstance(error, Unreachable):
        return not error.permanent and (method == "GET" or not error.sent)
    return isinstance(error, Unavailable) and method == "GET"


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(1.0, 1.25)
