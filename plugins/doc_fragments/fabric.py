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
        NEC's CDIM, V(sunfish) the composition service of Sunfish, V(redfish) any manager that composes by Redfish.
      - If not set, E(COMPOSABLE_MANAGER) is used.
    type: str
    choices: [fm, cm, nec, sunfish, redfish]
    default: fm
  endpoint:
    description:
      - Base URL of the CDI Manager, C(https://) and host. O(manager=nec) and O(manager=sunfish) may have C(http://).
      - If not set, E(COMPOSABLE_ENDPOINT) is used.
    type: str
  layout_endpoint:
    description:
      - Base URL where O(manager=nec) takes layout changes. The default is that of O(endpoint).
      - If not set, E(COMPOSABLE_LAYOUT_ENDPOINT) is used.
    type: str
  tenant:
    description:
      - UUID of the tenant. O(manager=fm) and O(manager=cm) require it.
      - If not set, E(COMPOSABLE_TENANT) is used.
    type: str
  cluster:
    description: UUID of the cluster. O(manager=cm) requires it. If not set, E(COMPOSABLE_CLUSTER) is used.
    type: str
  auth:
    description:
      - How to log in. O(manager=fm) and O(manager=cm) know V(password_grant), which needs all five credentials.
      - O(manager=redfish) and O(manager=sunfish) know V(session), which opens a session of Redfish and closes it at the
        end, V(basic), and V(none); the first two need O(username) and O(password), and C(https://).
      - O(manager=nec) knows V(none).
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
        and C(certificate), as CoHDI's Secrets have them. Fills what the other options leave out.
      - If not set, E(COMPOSABLE_CREDENTIALS_DIR) is used.
    type: path
  ca_path:
    description: PEM file with the certificate authority of the CDI Manager. If not set, E(COMPOSABLE_CA_PATH) is used.
    type: path
  client_cert_path:
    description:
      - PEM file with the certificate that is shown to a CDI Manager that asks for one (mutual TLS).
      - If not set, E(COMPOSABLE_CLIENT_CERT_PATH) is used.
    type: path
  client_key_path:
    description:
      - PEM file with the private key of O(client_cert_path), not encrypted. Not needed where that file holds it too.
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
    description: Seconds to wait for the answer to a read. If not set, E(COMPOSABLE_READ_TIMEOUT) is used.
    type: float
    default: 30.0
  attach_timeout:
    description:
      - Seconds to wait for the answer to an attach or detach, and how long an unanswered one may still take effect.
      - If not set, E(COMPOSABLE_ATTACH_TIMEOUT) is used.
    type: float
    default: 180.0
  requests_per_second:
    description:
      - At most so many requests a second are sent to the CDI Manager by one process. There is no limit by default.
      - If not set, E(COMPOSABLE_REQUESTS_PER_SECOND) is used.
    type: float
requirements:
  - python >= 3.11
  - urllib3 >= 2
"""
