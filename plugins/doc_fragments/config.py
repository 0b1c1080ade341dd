# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the options for the engine's configuration, and of the configuration itself.

``docs/configuration.md`` is made from this text. A test compares every key, default, choice and
range with the code.
"""

from __future__ import annotations


class ModuleDocFragment:
    """Configuration of the engine."""

    DOCUMENTATION = r"""
options:
  config:
    description:
      - The configuration as a mapping, with the same keys as the controller's configuration file.
      - Either this or O(config_path) is needed.
    type: dict
    suboptions:
      device_info:
        description:
          - The models that the fabric has, and how each appears in Kubernetes. It is CoHDI's table.
        type: list
        elements: dict
        required: true
        suboptions:
          index:
            description: Number of the row, unique in the table. From 0 to 10000.
            type: int
            required: true
          cdi-model-name:
            description: The model as the CDI Manager calls it, at most 1000 characters. It must be unique in the table.
            type: str
            required: true
          k8s-device-name:
            description:
              - Name of the model in names of pools and labels, unique in the table. A DNS label of at most 50
                characters.
            type: str
            required: true
          driver-name:
            description:
              - The DRA driver that publishes the model's devices, such as V(gpu.nvidia.com).
            type: str
            required: true
          other-driver-names:
            description:
              - Further DRA drivers, at most 3, for nodes with one of them in the label
                C(composable.infra/dra-driver).
              - CoHDI's components ignore it.
            type: list
            elements: str
            default: []
          dra-attributes:
            description:
              - Attributes of the devices in pools, at most 32 texts of at most 64 characters. C(productName) is
                required.
              - List each attribute that a DeviceClass reads. The class of NVIDIA's driver reads C(type).
            type: dict
            required: true
          capacity:
            description:
              - Capacities of the devices in pools, amounts such as V(80Gi) by name, for claims for a part of a device.
              - With the handover V(direct), the claim has the whole device. CoHDI's components ignore it.
            type: dict
            default: {}
          bar-size:
            description:
              - Addresses that all memory windows (BARs) of one device need together, such as V(64Gi), so that plans
                keep to the room of a node's ports. V(0) stands for unknown.
              - CoHDI's components ignore it.
            type: str
            default: "0"
          cannot-coexist-with:
            description: The C(index) of each model that a machine with this model cannot have.
            type: list
            elements: int
            default: []
          kind:
            description:
              - Kind of the devices.
            type: str
            choices: [gpu, memory]
            default: gpu
          handover:
            description:
              - The handover of this model, as in O(config.handover_models).
            type: str
            choices: [gated, direct, reschedule]
      fabric:
        description:
          - The connection to the CDI Manager. The options are those of M(composable.infra.fabric_info).
        type: dict
        required: true
        suboptions:
          manager:
            description:
              - Kind of the CDI Manager. V(fm) and V(cm) are Fabric Manager and Cluster Manager of Fsas Technologies,
                V(nec) is NEC's CDIM, V(sunfish) the composition service of Sunfish, V(redfish) any manager with
                Redfish composition.
              - C(namespace.collection.name) is a driver of another collection, which must be installed beside this one.
            type: str
            default: fm
          driver_options:
            description:
              - Options that only the driver of another collection has, by name. They are no place for secrets.
            type: dict
          endpoint:
            description:
              - Base URL of the CDI Manager, C(https://) and host. With V(nec) and V(sunfish) it may be C(http://).
            type: str
            required: true
          layout_endpoint:
            description: Base URL to which V(nec) takes changes of the layout. The default is C(endpoint).
            type: str
          tenant:
            description: UUID of the tenant. V(fm) and V(cm) need it. V(redfish) and V(sunfish) take one.
            type: str
          cluster:
            description: UUID of the cluster. V(cm) needs it, V(fm) takes one.
            type: str
          machines:
            description:
              - Which machine is behind which port, if V(redfish) or V(sunfish) shows host ports and no
                ComputerSystem.
              - A mapping of the uid of each machine, as in C(fsas-cdi://UID) of its node, to the path of its
                endpoint, or of its zone if zones are host ports.
            type: dict
          auth:
            description:
              - How to log in. V(fm) and V(cm) take V(password_grant), V(redfish) takes V(session), V(basic) and
                V(none), V(sunfish) V(none), V(basic) and V(session), V(nec) V(none). The first one is each manager's
                default.
            type: str
            choices: [password_grant, session, basic, none]
          username:
            description: User to log in as, at most 999 bytes.
            type: str
          password:
            description:
              - Password of the user, at most 999 bytes. The role C(controllers) takes it only from a Secret.
            type: str
          realm:
            description: Realm of the identity manager, with V(password_grant).
            type: str
          client_id:
            description: OpenID Connect client, with V(password_grant).
            type: str
          client_secret:
            description:
              - Secret of that client. The role C(controllers) takes it only from a Secret.
            type: str
          credentials_dir:
            description:
              - Folder of a mounted Secret with the files C(username), C(password), C(realm), C(client_id),
                C(client_secret) and C(certificate), for credentials that are not set here. It is read again before
                each login.
            type: path
          ca_path:
            description: PEM file with the certificate authority of the CDI Manager.
            type: path
          ca_pem:
            description: The certificate authority itself, as PEM text. Give this or C(ca_path).
            type: str
          client_cert_path:
            description: PEM file with the client certificate, for a CDI Manager that asks for one (mutual TLS).
            type: path
          client_key_path:
            description:
              - PEM file with the key of C(client_cert_path), if that file lacks it.
            type: path
          validate_certs:
            description:
              - Whether to verify the certificate of the CDI Manager. Switch this off only in a laboratory.
            type: bool
            default: true
          connect_timeout:
            description: Seconds to wait for a connection. Above 0, up to 86400.
            type: float
            default: 5.0
          read_timeout:
            description: Seconds to wait for the reply to a read. Above 0, up to 86400.
            type: float
            default: 30.0
          attach_timeout:
            description:
              - Seconds to wait for the reply to an attach or detach. For as long, a request without a reply may still
                take effect. Above 0, up to 86400.
            type: float
            default: 180.0
          requests_per_second:
            description:
              - Highest number of requests per second that one process sends, without a limit by default. Above 0, up
                to 100000.
            type: float
      scan_interval:
        description:
          - Seconds between two polls of the fabric. From 0.1 to 86400.
        type: float
        default: 5.0
      node_operations:
        description:
          - Which program does the node operations, V(agent) the node agent, V(ssh) the playbooks with
            M(composable.infra.node_device), V(none) no program.
          - C(node_hands) is the former name of this key. It works until version 2.0.0.
        type: str
        choices: [agent, ssh, none]
        default: agent
      lease_namespace:
        description:
          - Namespace of the Leases by which processes agree on the leader.
        type: str
        default: composable-infra
      provisioning_requests:
        description: Whether the scaler serves ProvisioningRequests of the class V(attach.composable.infra). Needs the
          handover V(gated), the CRD of ProvisioningRequests, and the permissions of C(deploy/provisioning).
        type: bool
        default: false
      workers:
        description: Threads that work on claims and resources at the same time. From 1 to 64.
        type: int
        default: 32
      parallel_attaches:
        description:
          - Attaches and detaches that are in flight at the same time on one fabric, at most. From 1 to 1024.
        type: int
        default: 256
      kube_api_qps:
        description: Requests per second that a controller sends to the API server, at most. From 1 to 100000.
        type: float
        default: 800.0
      kube_api_burst:
        description:
          - Requests that a controller sends to the API server at once after a pause, at most. From 1 to 100000.
        type: int
        default: 1600
      usage_label:
        description:
          - Key of a label of pods by which the usage of GPUs is summed, too, such as V(team).
        type: str
        default: ""
      usage_rates:
        description:
          - Price of one hour of a device, a mapping of C(cdi-model-name) to a number from 0 to 1000000.
        type: dict
        default: {}
      usage_currency:
        description: Currency of O(config.usage_rates), such as V(EUR). At most 16 letters.
        type: str
        default: ""
      prometheus_url:
        description:
          - Address of a Prometheus that scrapes the controllers, such as V(http://prometheus.monitoring:9090), without
            credentials. The page then shows its history. By default the page shows the last day.
        type: str
        default: ""
      label_prefix:
        description:
          - Domain of the labels and annotations of nodes that name fabric and machine, CoHDI's by default.
        type: str
        default: cohdi.io
      handover:
        description:
          - How a pod gets its devices.
          - With V(gated), a scheduling gate keeps the pod from kube-scheduler until they are attached. With
            V(reschedule), kube-scheduler allocates a pool device first and the node's own device later, as with
            CoHDI. With V(direct), the claim keeps the pool device, and the node agents must be the DRA driver
            C(device_info[].driver-name).
        type: str
        choices: [gated, direct, reschedule]
        default: gated
      handover_namespaces:
        description: Exceptions from O(config.handover), a mapping of namespaces to V(gated) or V(reschedule).
        type: dict
        default: {}
      handover_models:
        description: Exceptions from O(config.handover), a mapping of C(cdi-model-name) to one of its values.
        type: dict
        default: {}
      unserved:
        description:
          - Whether a gated pod that no node can serve is released (V(release)), or waits (V(wait)).
        type: str
        choices: [release, wait]
        default: release
      allocation_policy:
        description:
          - Which of several equal nodes is chosen. V(samenode) takes the node with most devices in use,
            V(differentnode) the one with fewest, V(roundrobin) the one that was chosen longest ago.
        type: str
        choices: [samenode, differentnode, roundrobin]
        default: samenode
      device_classes:
        description:
          - DeviceClasses that the fabric serves. By default those that have the name of a driver in
            O(config.device_info).
        type: list
        elements: str
        default: []
      device_no_removal_duration:
        description: Hold time, the seconds that an idle device stays attached. From 0 to 86400.
        type: float
        default: 600.0
      device_no_allocation_duration:
        description:
          - Seconds after its last use in which no other claim gets a device. From 0 to 86400.
        type: float
        default: 0.0
      max_devices_per_node:
        description: Devices of one model on one node, at most. From 1 to 86400.
        type: int
        default: 50
      handover_timeout:
        description:
          - Seconds for which an attached device is reserved for its claim. From 1 to 86400.
        type: float
        default: 60.0
      hold_timeout:
        description:
          - Seconds for which a gated pod waits for a poll of the CDI Manager or for devices on their way back. Then
            it is released. From 1 to 86400.
        type: float
        default: 60.0
      placement_timeout:
        description:
          - Seconds in which the devices of a gated pod must come to the chosen node. After twice that time, the pod
            is released. From 1 to 86400.
        type: float
        default: 300.0
      gone_node_duration:
        description:
          - Seconds after which the devices of a deleted node are returned. From 1 to 86400.
        type: float
        default: 300.0
      gone_node_power:
        description:
          - How the controllers know that the machine of a deleted node is off. With V(reported), the CDI Manager must
            report it. With V(assume_off), you say so for each deleted node.
          - Do not use V(assume_off) if a machine may join another cluster. Its pods would lose their devices.
        type: str
        choices: [reported, assume_off]
        default: reported
      max_group_size:
        description:
          - Pods of one group, at most. A larger group is released. From 1 to 86400.
        type: int
        default: 256
      max_size_min:
        description:
          - Largest number of devices that the label C(size-min) of a node keeps attached to it. From 0 to 86400.
        type: int
        default: 8
      max_pool_devices:
        description:
          - Largest number of free devices that one pool shows to kube-scheduler and Cluster Autoscaler. From 1 to
            86400.
        type: int
        default: 512
      prewarm:
        description:
          - Minimums of idle devices, a list of mappings with C(model), C(idle), and C(node_selector), by default all
            nodes. C(schedule) is a list of mappings with C(idle), C(from) and C(to), times of day in quotes,
            C(days), by default C(mon) to C(sun), and C(timezone), by default V(UTC).
        type: list
        elements: dict
        default: []
      namespace_quotas:
        description:
          - Devices that a namespace may have, a mapping of namespaces to a mapping of C(cdi-model-name) to a number.
            V(*) stands for any other namespace or model.
        type: dict
        default: {}
      namespace_attaches_per_minute:
        description:
          - Attaches per minute for a namespace, a mapping of namespaces to a number. V(*) stands for any other.
        type: dict
        default: {}
  config_path:
    description:
      - Path of the configuration file, the same file that the controller reads.
      - If not set, E(COMPOSABLE_CONFIG_PATH) is used.
    type: path
"""
