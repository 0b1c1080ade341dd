# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One exception for all failures of the lab, so that callers print a sentence and no traceback."""

from __future__ import annotations


class LabError(Exception):
    """A lab could not be started, found or used. The message says what to do."""


class NotYet(LabError):
    """A condition is not met now, but may be later. The message has the current state."""
