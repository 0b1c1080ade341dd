# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the settings of usage and history."""

from __future__ import annotations

import math
import re
import typing as t
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from ..device_info import DNS_SUBDOMAIN, BadSetting

# Keys of labels as the API server allows them.
_LABEL: t.Final = re.compile(rf"({DNS_SUBDOMAIN.pattern}/)?[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?")
_CURRENCY: t.Final = re.compile(r"\w{1,16}|[€$£¥]")
MOST_RATE: t.Final = 1_000_000
"""The highest price of an hour."""
KEYS: t.Final = ("usage_label", "usage_rates", "usage_currency", "prometheus_url")


def checked(data: Mapping[str, t.Any], models: Collection[str]) -> dict[str, t.Any]:
    """Return the given settings of usage. ``models``: the models of device_info. Raise BadSetting."""
    found = {key: data[key] for key in KEYS if key in data}
    if "usage_label" in found:
        _check_text("usage_label", found["usage_label"], _LABEL, "must be the key of a pod label, such as team")
    if "usage_currency" in found:
        _check_text("usage_currency", found["usage_currency"], _CURRENCY,
                    "must be a currency of at most 16 letters, such as EUR")
    if "usage_rates" in found:
        found["usage_rates"] = _rates(found["usage_rates"], models)
    if found.get("prometheus_url"):
        _check_url("prometheus_url", found["prometheus_url"])
    return found


def _check_url(key: str, value: object) -> None:
    parts = urlsplit(value) if isinstance(value, str) and value.isprintable() and " " not in value else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc \
            or parts.query or parts.fragment:
        shown = "a URL with credentials" if isinstance(value, str) and "@" in value else value
        raise BadSetting(key, shown, "must be an http or https URL without credentials or query")


def _check_text(key: str, value: object, pattern: re.Pattern[str], allowed: str) -> None:
    if not isinstance(value, str) or (value and not pattern.fullmatch(value)) or len(value) > 317:
        raise BadSetting(key, value, allowed)


def _rates(value: object, models: Collection[str]) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise BadSetting("usage_rates", value, "must be a mapping of models to the price of a device-hour")
    for model, rate in value.items():
        if model not in models:
            raise BadSetting(f"usage_rates.{model}", rate, "device_info has no such model")
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not math.isfinite(rate) \
                or not 0 <= rate <= MOST_RATE:
            raise BadSetting(f"usage_rates.{model}", rate, f"must be a number from 0 to {MOST_RATE}")
    return {str(model): float(rate) for model, rate in value.items()}
