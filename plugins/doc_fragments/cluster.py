# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the options that connect to a Kubernetes API server."""

from __future__ import annotations


class ModuleDocFragment:
    """Connection to the Kubernetes API server."""

    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of a kubeconfig file, or several paths separated by colons, or the content of such a
        file as a dictionary.
      - If not set, E(K8S_AUTH_KUBECONFIG) or E(KUBECONFIG) is used, then C(~/.kube/config), then the service account of
        the pod.
    type: raw
  context:
    description: Context of the kubeconfig. If not set, E(K8S_AUTH_CONTEXT) is used, then the current context.
    type: str
  host:
    description:
      - URL of the API server. If not set, E(K8S_AUTH_HOST) is used. Together with a login (O(api_key), or
        O(client_cert) and O(client_key)) it replaces the kubeconfig.
    type: str
  api_key:
    description: Bearer token for the API server. If not set, E(K8S_AUTH_API_KEY) is used.
    type: str
  ca_cert:
    description:
      - Path of the certificate authority of the API server, in PEM format. If not set, E(K8S_AUTH_CA_CERT) or
        E(K8S_AUTH_SSL_CA_CERT) is used.
    type: path
    aliases: [ssl_ca_cert]
  client_cert:
    description:
      - Path of a client certificate in PEM format. If not set, E(K8S_AUTH_CLIENT_CERT) or E(K8S_AUTH_CERT_FILE) is
        used.
    type: path
    aliases: [cert_file]
  client_key:
    description:
      - Path of the key of the client certificate. If not set, E(K8S_AUTH_CLIENT_KEY) or E(K8S_AUTH_KEY_FILE) is used.
    type: path
    aliases: [key_file]
  proxy:
    description: URL of a proxy on the way to the API server. If not set, E(K8S_AUTH_PROXY) is used.
    type: str
  no_proxy:
    description:
      - Hosts, domains, addresses and ranges of addresses, separated by commas, that are reached without a proxy.
      - If not set, E(K8S_AUTH_NO_PROXY) is used.
    type: str
  impersonate_user:
    description:
      - User to impersonate in requests to the API server. This needs the right to impersonate. If
        not set, E(K8S_AUTH_IMPERSONATE_USER) is used, then the value in the kubeconfig.
    type: str
  impersonate_groups:
    description: Groups of that user. If not set, E(K8S_AUTH_IMPERSONATE_GROUPS) is used, separated by commas.
    type: list
    elements: str
requirements:
  - python >= 3.11
  - PyYAML
"""
    LOGIN = r"""
options:
  username:
    description: User of the API server, where it takes passwords. If not set, E(K8S_AUTH_USERNAME) is used.
    type: str
  password:
    description: Password of the user. If not set, E(K8S_AUTH_PASSWORD) is used.
    type: str
  validate_certs:
    description:
      - Whether the certificate of the API server is checked. If not set, E(K8S_AUTH_VALIDATE_CERTS)
        or E(K8S_AUTH_VERIFY_SSL) is used, then the value in the kubeconfig.
    type: bool
    aliases: [verify_ssl]
"""
    INVENTORY_LOGIN = r"""
options:
  kubernetes_username:
    description: User of the API server, where it takes passwords. O(username) is that of the CDI Manager.
    type: str
    env:
      - name: K8S_AUTH_USERNAME
  kubernetes_password:
    description: Password of that user. O(password) is that of the CDI Manager.
    type: str
    env:
      - name: K8S_AUTH_PASSWORD
  kubernetes_validate_certs:
    description:
      - Whether the certificate of the API server is checked. O(validate_certs) is for the
        certificate of the CDI Manager. If not set, the value in the kubeconfig is used.
    type: bool
    env:
      - name: K8S_AUTH_VALIDATE_CERTS
      - name: K8S_AUTH_VERIFY_SSL
"""
