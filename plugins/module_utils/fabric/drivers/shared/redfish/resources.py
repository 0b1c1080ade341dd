# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Redfish resources of composition, with only the fields that are used."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Mapping, Sequence

from .fields import (
    Field,
    Resource,
    amount,
    identifier,
    link,
    link_set,
    links,
    objects,
    path,
    text,
    texts,
    truth,
    whole,
)


def _is_list(value: t.Any) -> bool:
    return isinstance(value, list)


class ServiceRoot(Resource):
    """``/redfish/v1``, with the links to everything else."""

    systems = Field("Systems", link)
    chassis = Field("Chassis", link)
    fabrics = Field("Fabrics", link)
    composition = Field("CompositionService", link)
    blocks = Field("ResourceBlocks", link)
    sessions = Field("Links/Sessions", link)
    expands = Field("ProtocolFeaturesSupported/ExpandQuery/NoLinks", truth)
    levels = Field("ProtocolFeaturesSupported/ExpandQuery/MaxLevels", whole)
    version = Field("RedfishVersion", text)
    product = Field("Product", text)


class Collection(Resource):
    """A page of a collection. Some services put ``Members`` one level too deep."""

    members = Field("Members", objects)
    misplaced = Field("Links/Members", objects)
    count = Field("Members@odata.count", whole)
    more = Field("Members@odata.nextLink", link)

    def entries(self) -> tuple[Mapping[str, t.Any], ...]:
        """Return references or whole resources, as the service sends them."""
        return self.members or self.misplaced


class Status(Resource):
    """``Status`` of a resource. Its ``rollup`` health includes its contents."""

    health = Field("Health", text)
    rollup = Field("HealthRollup", text)
    state = Field("State", text)


class Described(Resource):
    """Common fields of resources."""

    ident = Field("Id", text)
    name = Field("Name", text)
    status = Field("Status", Status)


class ComputerSystem(Described):
    """A machine. Its firmware shows ``uuid`` in SMBIOS."""

    uuid = Field("UUID", identifier)
    power = Field("PowerState", text)
    blocks = Field("Links/ResourceBlocks", links)
    lists_blocks = Field("Links/ResourceBlocks", _is_list)
    endpoints = Field("Links/Endpoints", links)
    pcie_devices = Field("PCIeDevices", links)
    processors = Field("Processors", link)
    last_reset = Field("LastResetTime", text)
    reset = Field("Actions/#ComputerSystem.Reset/target", path)
    reset_types = Field("Actions/#ComputerSystem.Reset/ResetType@Redfish.AllowableValues", texts)
    add_block = Field("Actions/#ComputerSystem.AddResourceBlock/target", path)
    remove_block = Field("Actions/#ComputerSystem.RemoveResourceBlock/target", path)


def system_uids(systems: Sequence[ComputerSystem]) -> dict[str, str]:
    """Return the uids by path of the system. A shared UUID is no uid, so use the path."""
    shared = Counter(system.uuid for system in systems)
    return {s.uri: s.uuid if s.uuid and shared[s.uuid] == 1 else s.uri for s in systems}


class CompositionService(Described):
    """The service with blocks, zones of compatible blocks and the Compose action."""

    blocks = Field("ResourceBlocks", link)
    zones = Field("ResourceZones", link)
    enabled = Field("ServiceEnabled", truth)
    compose = Field("Actions/#CompositionService.Compose/target", path)


class ResourceBlock(Described):
    """A block that moves as a whole.

    ``composition`` is Unused, Composing, Composed, ComposedAndAvailable, Failed and so on.
    """

    types = Field("ResourceBlockType", texts)
    composition = Field("CompositionStatus/CompositionState", text)
    reserved = Field("CompositionStatus/Reserved", truth)
    sharing = Field("CompositionStatus/SharingCapable", truth)
    client = Field("Client", text)
    systems = Field("Links/ComputerSystems", links)
    own_systems = Field("ComputerSystems", links)
    zones = Field("Links/Zones", links)
    chassis = Field("Links/Chassis", links)

    def within(self, property_name: str) -> tuple[str, ...]:
        """Return the links of a list of contents such as Processors, Memory or Drives."""
        return links(self.body.get(property_name))


class Zone(Described):
    """Blocks that can be composed together, or endpoints that may see each other."""

    blocks = Field("Links/ResourceBlocks", links)
    endpoints = Field("Links/Endpoints", links)
    members = Field("Links/Endpoints", link_set)
    add_endpoint = Field("Actions/#Zone.AddEndpoint/target", path)
    remove_endpoint = Field("Actions/#Zone.RemoveEndpoint/target", path)


class FabricResource(Described):
    """A network of switches between initiators and targets."""

    switches = Field("Switches", link)
    endpoints = Field("Endpoints", link)
    zones = Field("Zones", link)
    connections = Field("Connections", link)


class SwitchResource(Described):
    """A switch of a fabric."""

    ports = Field("Ports", link)


class Port(Described):
    """A port of a switch and the far end of its link."""

    link_status = Field("LinkStatus", text)
    link_state = Field("LinkState", text)
    speed = Field("CurrentSpeedGbps", amount)
    endpoints = Field("Links/AssociatedEndpoints", links)
    switches = Field("Links/ConnectedSwitches", links)
    switch_ports = Field("Links/ConnectedSwitchPorts", links)
    far_ports = Field("Links/ConnectedPorts", links)

    def is_up(self) -> bool:
        """Return whether the link works. Assume so without a status."""
        return self.link_status in (None, "LinkUp") and self.link_state != "Disabled"


class Entity(Resource):
    """One of the resources that an endpoint represents."""

    entity_type = Field("EntityType", text)
    role = Field("EntityRole", text)
    target = Field("EntityLink", link)


class Identifier(Resource):
    """A durable name."""

    value = Field("DurableName", text)
    form = Field("DurableNameFormat", text)


class Endpoint(Described):
    """One side of a fabric: the initiator of a machine or the target of a device."""

    protocol = Field("EndpointProtocol", text)
    connected = Field("ConnectedEntities", objects)
    identifiers = Field("Identifiers", objects)
    zones = Field("Links/Zones", links)
    connections = Field("Links/Connections", links)
    switch_ports = Field("Links/ConnectedPorts", links)

    def entities(self) -> tuple[Entity, ...]:
        """Return the entities that the endpoint represents."""
        return tuple(Entity(entry) for entry in self.connected)

    def lasting_name(self) -> str | None:
        """Return the endpoint's UUID, or None."""
        found = (Identifier(entry) for entry in self.identifiers)
        return next((identifier(i.value) for i in found if i.form == "UUID" and identifier(i.value)), None)


class EndpointGroup(Described):
    """Endpoints that a connection names together."""

    endpoints = Field("Endpoints", links)
    listed = Field("Endpoints", _is_list)
    more = Field("Endpoints@odata.nextLink", link)


class Connection(Described):
    """The initiators and targets that may use each other, as endpoints or endpoint groups.

    ``expanded`` replaces known groups by their endpoints. The remaining groups cannot be resolved,
    so the users of the connection are not all known.
    """

    initiators = Field("Links/InitiatorEndpoints", links)
    targets = Field("Links/TargetEndpoints", links)
    initiator_groups = Field("Links/InitiatorEndpointGroups", links)
    target_groups = Field("Links/TargetEndpointGroups", links)

    @property
    def groups(self) -> tuple[str, ...]:
        """All endpoint groups of the connection."""
        return (*self.initiator_groups, *self.target_groups)

    def expanded(self, known: Mapping[str, tuple[str, ...]]) -> Connection:
        """Return the connection with the endpoints of the ``known`` groups (by path)."""
        if not self.groups:
            return self
        changed: dict[str, t.Any] = {}
        sides = (("Initiator", self.initiators, self.initiator_groups), ("Target", self.targets, self.target_groups))
        for side, own, groups in sides:
            every = [*own, *(uri for group in groups for uri in known.get(group, ()))]
            changed[f"{side}Endpoints"] = [{"@odata.id": uri} for uri in every]
            changed[f"{side}EndpointGroups"] = [{"@odata.id": group} for group in groups if group not in known]
        return Connection({**self.body, "Links": {**self.body["Links"], **changed}}, self.uri, self.etag)


class Part(Described):
    """A processor, memory, memory chunk, drive, PCIe device or other part."""

    model = Field("Model", text)
    part_number = Field("PartNumber", text)
    manufacturer = Field("Manufacturer", text)
    serial = Field("SerialNumber", text)
    uuid = Field("UUID", identifier)
    processor_type = Field("ProcessorType", text)
    capacity = Field("CapacityMiB", whole)
    chunk_size = Field("MemoryChunkSizeMiB", whole)
    interleaves = Field("InterleaveSets", objects)
    functions = Field("PCIeFunctions", link)
    device_class = Field("DeviceClass", text)
    chassis = Field("Links/Chassis", links)
    odata_type = Field("@odata.type", text)

    def type_name(self) -> str:
        """Return ``Processor`` for ``#Processor.v1_22_0.Processor``."""
        return (self.odata_type or "").lstrip("#").partition(".")[0]


class TaskResource(Described):
    """An operation in flight."""

    state = Field("TaskState", text)
    task_status = Field("TaskStatus", text)
    messages = Field("Messages", objects)
    monitor = Field("TaskMonitor", path)
    odata_type = Field("@odata.type", text)

    def is_task(self) -> bool:
        """Return whether this is a Task. A monitor may answer with the result of the operation."""
        return (self.odata_type or "").lstrip("#").startswith("Task.")
