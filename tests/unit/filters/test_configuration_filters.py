# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters that judge and complete the controllers' configuration."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.composable.infra.plugins.filter.checked_autoscaler_groups import FilterModule as Groups
from ansible_collections.composable.infra.plugins.filter.checked_config import FilterModule as Checked
from ansible_collections.composable.infra.plugins.filter.fabric_inputs_problem import FilterModule as Inputs
from ansible_collections.composable.infra.plugins.filter.with_environment import FilterModule as Completed
from ansible_collections.composable.infra.plugins.module_utils.fabric import external
from ansible_collections.composable.infra.plugins.module_utils.fabric.connect import connect
from ansible_collections.composable.infra.plugins.module_utils.fabric.registry import DriverOption, ManagerEntry

Json = dict[str, t.Any]
checked_groups = Groups().filters()["checked_autoscaler_groups"]
inputs_problem = Inputs().filters()["fabric_inputs_problem"]
checked_config = Checked().filters()["checked_config"]
with_environment = Completed().filters()["with_environment"]
ROW: Json = {"index": 1, "cdi-model-name": "A100 40G", "k8s-device-name": "nvidia-a100-40g",
             "driver-name": "gpu.nvidia.com", "cannot-coexist-with": [],
             "dra-attributes": {"productName": "NVIDIA A100-PCIE-40GB", "uuid": ""}}
FABRIC: Json = {"manager": "fm", "endpoint": "https://manager.example.com",
                "tenant": "00000000-0000-4000-8000-000000000001", "credentials_dir": "/nowhere/at/all"}
CONFIG: Json = {"device_info": [ROW], "fabric": FABRIC}
GROUPS: Json = {"vertical": [{"id": "vertical", "devices": {"nvidia.com/gpu": 8}}], "attach_costs": {"A100 40G": 2}}


def altered(**fabric: object) -> Json:
    return {**CONFIG, "fabric": {k: v for k, v in {**FABRIC, **fabric}.items() if v is not None}}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own variables are nobody's business."""
    for name in ("ENDPOINT", "PASSWORD", "USERNAME", "VALIDATE_CERTS", "READ_TIMEOUT", "MANAGER"):
        monkeypatch.delenv(f"COMPOSABLE_{name}", raising=False)


class TestChecked:
    def test_a_good_one_is_returned_as_it_is(self) -> None:
        assert checked_config(CONFIG) == CONFIG

    def test_files_of_the_pod_are_not_looked_for(self) -> None:
        config = altered(ca_path="/in/the/pod/ca.pem", client_cert_path="/in/the/pod/tls.crt")
        assert checked_config(config) == config

    def test_a_manager_without_a_login_needs_no_secret(self) -> None:
        config = {**CONFIG, "fabric": {"manager": "nec", "endpoint": "http://cdim.example.com"}}
        assert checked_config(config) == config

    def test_the_driver_of_another_collection_says_what_it_needs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entry = ManagerEntry(auth=("basic",), options={"rack": DriverOption(required=True)})
        monkeypatch.setitem(external._DRIVERS, "acme.checked.box", external.ExternalDriver(entry, connect, 1))
        config = altered(manager="acme.checked.box", tenant=None, driver_options={"rack": "r1"})
        assert checked_config(config) == config
        with pytest.raises(AnsibleFilterError, match=r"username is not set. It is required"):
            checked_config(altered(manager="acme.checked.box", tenant=None, driver_options={"rack": "r1"},
                                   credentials_dir=None))

    @pytest.mark.parametrize(("config", "words"), [
        ([], "must be a mapping of settings, is list"),
        ({"device_info": [ROW]}, "fabric"),
        ({**CONFIG, "scan_intervall": 5}, "scan_intervall"),
        (altered(endpoint="ftp://x"), "endpoint"),
        (altered(manager="fn"), "manager"),
        (altered(tenant=None), "tenant"),
        (altered(credentials_dir=None), "username")])
    def test_a_bad_one_is_refused_with_its_field(self, config: object, words: str) -> None:
        with pytest.raises(AnsibleFilterError, match=words):
            checked_config(config)

    @pytest.mark.parametrize("name", ["password", "client_secret", "ca_pem"])
    def test_secrets_are_refused_and_not_repeated(self, name: str) -> None:
        with pytest.raises(AnsibleFilterError, match=f"fabric.{name}: is not allowed in the configuration") as refused:
            checked_config(altered(**{name: "s3cret"}))
        assert "s3cret" not in str(refused.value)


DRIVER = "devices.composable.infra"
DIRECT: Json = {**CONFIG, "device_info": [{**ROW, "driver-name": DRIVER, "handover": "direct"}]}


class TestHandovers:
    """The node agents are the DRA driver of models with the handover direct: what cannot be is told before it runs."""

    @pytest.mark.parametrize("kinds", [None, ["nvidia"], ["cxl-memory", "generic-pci"]])
    def test_direct_with_the_agents_own_driver_is_well(self, kinds: list[str] | None) -> None:
        assert checked_config(DIRECT, agent_driver=DRIVER, agent_kinds=kinds) == DIRECT

    def test_memory_needs_its_own_kind(self) -> None:
        memory = {**DIRECT, "fabric": {**FABRIC, "manager": "redfish", "tenant": None},
                  "device_info": [{**DIRECT["device_info"][0], "kind": "memory"}]}
        assert checked_config(memory, agent_driver=DRIVER, agent_kinds=["nvidia", "cxl-memory"]) == memory
        with pytest.raises(AnsibleFilterError, match="offers only nvidia"):
            checked_config(memory, agent_driver=DRIVER, agent_kinds=["nvidia"])

    @pytest.mark.parametrize(("config", "options", "said"), [
        (DIRECT, {"agent_driver": ""},
         f"config: device_info[0].driver-name: '{DRIVER}' is not usable: A100 40G has the handover direct, so it must "
         "be the driver of the node agents (controllers_agent_dra_driver), which is ''"),
        ({**CONFIG, "handover": "direct"}, {"agent_driver": DRIVER},
         "config: device_info[0].driver-name: 'gpu.nvidia.com' is not usable: A100 40G has the handover direct, so it "
         f"must be the driver of the node agents (controllers_agent_dra_driver), which is '{DRIVER}'"),
        (DIRECT, {"agent_driver": DRIVER, "agent_kinds": ["cxl-memory"]},
         "config: device_info[0].kind: 'gpu' is not usable: A100 40G has the handover direct, and the driver of the "
         "node agents offers only cxl-memory (controllers_agent_dra_kinds)"),
        ({**DIRECT, "node_operations": "ssh"}, {"agent_driver": DRIVER},
         "config: node_operations: 'ssh' is not usable: must be agent: A100 40G has the handover direct, for which the "
         "node agents are the DRA driver"),
        (CONFIG, {"handover": "direct"},
         "handover: 'direct' is not usable: the configuration has 'gated'. Give only one of them, or the same value"),
        (DIRECT, {"handover_models": {"A100 40G": "gated"}},
         "handover_models.A100 40G: 'gated' is not usable: the configuration has 'direct'. Give only one of them, "
         "or the same value"),
        (CONFIG, {"handover_models": {"H100": "gated"}},
         "handover_models.H100: 'gated' is not usable: the configuration has None. Give only one "
         "of them, or the same value"),
    ])
    def test_what_cannot_be_is_refused_in_one_sentence(self, config: Json, options: Json, said: str) -> None:
        with pytest.raises(AnsibleFilterError) as refused:
            checked_config(config, **options)
        assert str(refused.value) == said

    def test_others_need_no_driver_of_the_agents(self) -> None:
        assert checked_config(CONFIG, handover="gated", agent_driver="", agent_kinds=[]) == CONFIG


class TestGroups:
    def test_good_ones_are_returned_as_they_are(self) -> None:
        assert checked_groups(GROUPS, CONFIG) == GROUPS

    @pytest.mark.parametrize(("groups", "words"), [
        ([], "groups: config: "),
        ({}, r"groups: vertical: .*must list at least one group"),
        ({**GROUPS, "nodess": []}, "nodess"),
        ({**GROUPS, "attach_costs": {"T4": 1}}, "no such model. Known models are A100 40G"),
        ({**GROUPS, "nodes": [{"id": "gpu", "provider": {"kind": "metal"}}]}, r"nodes\[0\]\.provider\.kind: 'metal'")])
    def test_bad_ones_are_refused_with_the_field(self, groups: object, words: str) -> None:
        with pytest.raises(AnsibleFilterError, match=words):
            checked_groups(groups, CONFIG)

    @pytest.mark.parametrize(("config", "words"), [
        ([], "config: must be a mapping of settings, is list"), ({"device_info": [{}]}, "device_info")])
    def test_models_that_cannot_be_read_are_told(self, config: object, words: str) -> None:
        with pytest.raises(AnsibleFilterError, match=words):
            checked_groups(GROUPS, config)


class TestWithEnvironment:
    def test_it_fills_what_is_absent_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COMPOSABLE_ENDPOINT", FABRIC["endpoint"])
        monkeypatch.setenv("COMPOSABLE_TENANT", "00000000-0000-4000-8000-00000000000f")
        monkeypatch.setenv("COMPOSABLE_USERNAME", "gpu")
        monkeypatch.setenv("COMPOSABLE_PASSWORD", "s3cret")
        assert with_environment(CONFIG)["fabric"] == {**FABRIC, "username": "gpu", "password": "s3cret"}

    def test_values_have_their_type(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COMPOSABLE_VALIDATE_CERTS", "no")
        monkeypatch.setenv("COMPOSABLE_READ_TIMEOUT", "12.5")
        fabric = with_environment({"fabric": None})["fabric"]
        assert (fabric["validate_certs"], fabric["read_timeout"]) == (False, 12.5)

    def test_the_given_one_is_left_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COMPOSABLE_USERNAME", "gpu")
        config: Json = {"fabric": {}}
        assert with_environment(config)["fabric"] == {"username": "gpu"}
        assert config == {"fabric": {}}

    def test_text_is_read_as_yaml(self) -> None:
        assert with_environment("scan_interval: 5\nfabric: {manager: nec}") == {
            "scan_interval": 5, "fabric": {"manager": "nec"}}

    @pytest.mark.parametrize("name", ["endpoint", "layout_endpoint"])
    @pytest.mark.parametrize("secret", ["password", "client_secret", "credentials_dir"])
    @pytest.mark.parametrize("known", [None, "https://manager.example.com"])
    def test_secrets_do_not_go_to_another_endpoint(self, name: str, secret: str, known: str | None,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(f"COMPOSABLE_{secret.upper()}", "s3cret")
        if known:
            monkeypatch.setenv(f"COMPOSABLE_{name.upper()}", known)
        words = f"fabric.{name}: is not .* COMPOSABLE_{secret.upper()}"
        with pytest.raises(AnsibleFilterError, match=words) as refused:
            with_environment({"fabric": {name: "https://thief.example.com"}})
        assert "s3cret" not in str(refused.value)

    def test_an_endpoint_with_secrets_of_its_own_is_anybodys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COMPOSABLE_PASSWORD", "s3cret")
        own = {"endpoint": "https://other.example.com", "password": "mine"}
        assert with_environment({"fabric": own}) == {"fabric": own}

    @pytest.mark.parametrize("blank", ["", " "])
    def test_a_blank_variable_counts_as_absent(self, blank: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("COMPOSABLE_USERNAME", blank)
        assert with_environment({}) == {"fabric": {}}

    @pytest.mark.parametrize(("variable", "value"), [("VALIDATE_CERTS", "maybe"), ("READ_TIMEOUT", "soon")])
    def test_a_value_of_the_wrong_type_is_named(
        self, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(f"COMPOSABLE_{variable}", value)
        with pytest.raises(AnsibleFilterError, match=f"COMPOSABLE_{variable}: '{value}' is not allowed"):
            with_environment({})

    @pytest.mark.parametrize(("config", "words"), [
        ("a: [", "not valid YAML"), (7, "is int"), ({"fabric": "https://x"}, "fabric: must be a mapping")])
    def test_what_is_no_configuration_is_refused(self, config: object, words: str) -> None:
        with pytest.raises(AnsibleFilterError, match=words):
            with_environment(config)


# What AWX stores for a credential: texts, and blanks where nothing was filled in.
INPUTS: Json = {"manager": "redfish", "endpoint": "https://manager.example.com", "username": "gpu", "password": "p",
                "tenant": "", "validate_certs": "true", "read_timeout": "20",
                "certificate": "-----BEGIN CERTIFICATE-----"}


@pytest.mark.parametrize(("changes", "connection", "words"), [
    ({}, {}, ""),
    ({"password": ""}, {}, "password is not set. It is required"),
    ({"username": ""}, {"username": "of-the-config"}, ""),
    ({"manager": "fn"}, {}, "manager: 'fn' is not allowed. Allowed are fm"),
    ({"manager": "fm"}, {}, "tenant is not set. It is required"),
    ({"validate_certs": "nein"}, {}, "validate_certs: 'nein' is not allowed. Allowed are true, false"),
    ({"read_timeout": "soon"}, {}, "read_timeout: 'soon' is not allowed. It must be a number"),
    ({"machines": '{"node-0": "/redfish/v1/Fabrics/CXL/Endpoints/H1"}'}, {}, ""),
    ({"machines": "node-0"}, {}, "machines: 'node-0' is not allowed. It must be a mapping as JSON, such as "),
    ({"driver_options": '{"rack": "r1"}'}, {}, "driver_options: {'rack': 'r1'} is not allowed. Manager redfish with "),
    ({"pasword": "x"}, {}, "pasword: is not an input of the credential type CDI Manager"),
    ({"client_key": "-----BEGIN KEY-----"}, {}, "client_key: give client_certificate too")])
def test_inputs_of_a_credential(changes: Json, connection: Json, words: str) -> None:
    found = inputs_problem({**INPUTS, **changes}, connection)
    assert str(found).startswith(words) if words else found == ""
