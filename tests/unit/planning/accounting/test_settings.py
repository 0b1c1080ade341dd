# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of usage and history that are not usable are one sentence, without secrets."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.composable.infra.plugins.module_utils.reconcile.config import BadConfig, EngineConfig
from ansible_collections.composable.infra.tests.unit.planning.builders import A100, rows

MANAGER = {"endpoint": "https://manager.example", "tenant": "00000000-0000-4000-8000-000000000001", "username": "u",
           "password": "p", "realm": "r", "client_id": "c", "client_secret": "s"}


def config(**more: t.Any) -> EngineConfig:
    """A configuration with these settings."""
    return EngineConfig.from_dict({"device_info": rows(), "fabric": MANAGER, **more})


@pytest.mark.parametrize(("given", "said"), [
    ({"usage_rates": {"B200": 1}}, "usage_rates.B200: 1 is not usable: device_info has no such model"),
    ({"usage_rates": {A100: -1}}, f"usage_rates.{A100}: -1 is not usable: must be a number from 0 to 1000000"),
    ({"usage_rates": {A100: float("nan")}}, "must be a number from 0 to 1000000"),
    ({"usage_rates": {A100: True}}, "must be a number from 0 to 1000000"),
    ({"usage_rates": [1]}, "usage_rates: [1] is not usable: must be a mapping of models to the price of a device-hour"),
    ({"usage_label": "a b"}, "usage_label: 'a b' is not usable: must be the key of a pod label, such as team"),
    ({"usage_label": 5}, "usage_label: 5 is not usable: must be the key of a pod label, such as team"),
    ({"usage_currency": "a" * 17}, "must be a currency of at most 16 letters, such as EUR"),
    ({"prometheus_url": "ftp://x"}, "prometheus_url: 'ftp://x' is not usable: must be an http or https URL"),
    ({"prometheus_url": "http://"}, "must be an http or https URL without credentials or query"),
    ({"prometheus_url": "http://x/?a=1"}, "must be an http or https URL without credentials or query"),
    ({"prometheus_url": "http://x y"}, "must be an http or https URL without credentials or query"),
    ({"prometheus_url": ["x"]}, "must be an http or https URL without credentials or query")])
def test_what_is_not_usable(given: dict[str, t.Any], said: str) -> None:
    with pytest.raises(BadConfig) as caught:
        config(**given)
    assert said in str(caught.value)


def test_credentials_in_the_url_are_not_shown() -> None:
    with pytest.raises(BadConfig) as caught:
        config(prometheus_url="http://me:not-told@prometheus:9090")
    assert "not-told" not in str(caught.value)


@pytest.mark.parametrize("given", [
    {}, {"usage_label": "example.com/team", "usage_rates": {A100: 2}, "usage_currency": "EUR",
         "prometheus_url": "https://prometheus.monitoring:9090/prefix"},
    {"usage_label": "", "usage_currency": "", "prometheus_url": "", "usage_rates": {}}])
def test_what_is_usable(given: dict[str, t.Any]) -> None:
    made = config(**given)
    assert {key: getattr(made, key) for key in given} == given
