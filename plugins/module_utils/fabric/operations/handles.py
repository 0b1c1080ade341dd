# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The written form of the handles by which an asynchronous manager knows its operations: one line for each.

It is what the annotation ``composable.infra/operation`` and the option ``handle`` of the modules hold. Another process
reads it, perhaps of another release: it passes over keys that it does not know, and waits for no operation whose handle
has another version.
"""

from __future__ import annotations

import typing as t

from ..errors import Uncertain

VERSION: t.Final = 1
"""Of one handle, in its key ``version``. Increase it only if an older release must not read the handle."""


def written(handles: tuple[str, ...]) -> str:
    """Handles as one text; empty when there are none."""
    return "\n".join(handles)


def read(text: str) -> tuple[str, ...]:
    """The handles of a text that ``written`` made."""
    return tuple(text.split("\n")) if text else ()


def check_version(told: t.Mapping[str, t.Any]) -> None:
    """Raise Uncertain if a handle was written by a release that this one does not understand.

    Args:
        told: a handle's document. Without a version it is from before handles had one.
    """
    version = told.get("version", VERSION)
    if version != VERSION:
        raise Uncertain(
            f"cannot wait for an operation that another release began: its version is {version!r} and this release "
            f"reads version {VERSION}. Run the other release, or remove the annotation composable.infra/operation "
            "after the CDI Manager has ended the operation"
        )
