# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the options that connect to a CDI Manager."""

from __future__ import annotations


class ModuleDocFragment:
    """Connection to the CDI Manager."""

    DOCUMENTATION = r"""
options:
  manager:
    description:
      - Kind of the CDI Manager. V(fm) and V(cm) are Fabric Manager and Cluster Manager of Fsas Technologies, V(nec) is
        NEC's CDIM, V(sunfish) the composition service of Sunfish, V(redfish) any manager with Redfish composition.
      - C(namespace.collection.name) is a driver of another collection, which must be installed
        beside this one. If a task runs on another host, it uses the module of the same name in that
        collection.
      - If not set, E(COMPOSABLE_MANAGER) is used.
    type: str
    default: fm
  driver_options:
    description:
      - Options that only the driver of another collection has, by name. The driver's documentation lists them.
      - Do not put secrets there. They belong in O(username), O(password) and O(credentials_dir).
      - If not set, E(COMPOSABLE_DRIVER_OPTIONS) is used, with a mapping as JSON.
    type: dict
  endpoint:
    description:
      - Base URL of the CDI Manager, C(https://) and host. With O(manager=nec) and O(manager=sunfish) it may be C(http://).
      - If not set, E(COMPOSABLE_ENDPOINT) is used.
    type: str
  layout_endpoint:
    description:
      - Base URL to which changes of the layout are sent with O(manager=nec). The default is O(endpoint).
      - If not set, E(COMPOSABLE_LAYOUT_ENDPOINT) is used.
    type: str
  tenant:
    description:
      - UUID of the tenant. Required with O(manager=fm) and O(manager=cm).
      - If not set, E(COMPOSABLE_TENANT) is used.
    type: str
  cluster:
    description: UUID of the cluster. Required with O(manager=cm). If not set, E(COMPOSABLE_CLUSTER) is used.
    type: str
  machines:
    description:
      - Which machine is behind which port, where a Redfish service shows host ports and no ComputerSystem.
      - A mapping of the uid of each machine, as in C(fsas-cdi://UID) of its node, to the path of
        its endpoint. If the zones of the fabric are host ports themselves, it is the path of the
        machine's zone. There, devices in a zone without a machine count as devices of another
        machine.
      - For O(manager=redfish) and O(manager=sunfish).
      - If not set, E(COMPOSABLE_MACHINES) is used, with a mapping as JSON.
    type: dict
  auth:
    description:
      - How to log in. O(manager=fm) and O(manager=cm) support V(password_grant), which needs O(username), O(password),
        O(realm), O(client_id) and O(client_secret).
      - O(manager=redfish) and O(manager=sunfish) support V(session), V(basic) and V(none). V(session) opens a Redfish
        session and closes it at the end. V(session) and V(basic) need O(username), O(password) and C(https://).
      - O(manager=nec) supports V(none).
      - The default is V(password_grant) for O(manager=fm) and O(manager=cm), V(session) for O(manager=redfish), and
        V(none) for the others.
      - If not set, E(COMPOSABLE_AUTH) is used.
    type: str
    choices: [password_grant, session, basic, none]
  username:
    description: User to log in as. If not set, E(COMPOSABLE_USERNAME) is used.
    type: str
  password:
    description: Password of the user. If not set, E(COMPOSABLE_PASSWORD) is used.
    type: str
  realm:
    description: Realm of the identity manager. If not set, E(COMPOSABLE_REALM) is used.
    type: str
  client_id:
    description: OpenID Connect client. If not set, E(COMPOSABLE_CLIENT_ID) is used.
    type: str
  client_secret:
    description: Secret of the OpenID Connect client. If not set, E(COMPOSABLE_CLIENT_SECRET) is used.
    type: str
  credentials_dir:
    description:
      - Folder of a mounted Secret with the files C(username), C(password), C(realm), C(client_id), C(client_secret)
        and C(certificate), as in CoHDI's Secrets. It is used for credentials that are not set as options.
      - If not set, E(COMPOSABLE_CREDENTIALS_DIR) is used.
    type: path
  ca_path:
    description: PEM file with the certificate authority of the CDI Manager. If not set, E(COMPOSABLE_CA_PATH) is used.
    type: path
  client_cert_path:
    description:
      - PEM file with the client certificate, for a CDI Manager that requires it (mutual TLS).
      - If not set, E(COMPOSABLE_CLIENT_CERT_PATH) is used.
    type: path
  client_key_path:
    description:
      - PEM file with the private key of O(client_cert_path), not encrypted. Not needed when that file has the key too.
      - If not set, E(COMPOSABLE_CLIENT_KEY_PATH) is used.
    type: path
  validate_certs:
    description:
      - Whether to verify the certificate of the CDI Manager. Only switch this off in a laboratory.
      - If not set, E(COMPOSABLE_VALIDATE_CERTS) is used.
    type: bool
    default: true
  connect_timeout:
    description: Seconds to wait for a connection. If not set, E(COMPOSABLE_CONNECT_TIMEOUT) is used.
    type: float
    default: 5.0
  read_timeout:
    description: Seconds to wait for the reply to a read. If not set, E(COMPOSABLE_READ_TIMEOUT) is used.
    type: float
    default: 30.0
  attach_timeout:
    description:
      - Seconds to wait for the reply to an attach or detach. For as long, one without a reply may still take effect.
      - If not set, E(COMPOSABLE_ATTACH_TIMEOUT) is used.
    type: float
    default: 180.0
  requests_per_second:
    description:
      - Highest number of requests per second that one process sends to the CDI Manager. There is no limit by default.
      - If not set, E(COMPOSABLE_REQUESTS_PER_SECOND) is used.
    type: float
requirements:
  - python >= 3.11
"""
