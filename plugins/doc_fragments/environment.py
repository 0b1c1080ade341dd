# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Environment variables of the connection options, in the form for plugins.

Modules have these variables as fallbacks.
"""

from __future__ import annotations


class ModuleDocFragment:
    """Variables of the CDI Manager's options. ``CLUSTER`` has those of the API server."""

    DOCUMENTATION = r"""
options:
  attach_timeout:
    env:
      - name: COMPOSABLE_ATTACH_TIMEOUT
  auth:
    env:
      - name: COMPOSABLE_AUTH
  ca_path:
    env:
      - name: COMPOSABLE_CA_PATH
  client_cert_path:
    env:
      - name: COMPOSABLE_CLIENT_CERT_PATH
  client_id:
    env:
      - name: COMPOSABLE_CLIENT_ID
  client_key_path:
    env:
      - name: COMPOSABLE_CLIENT_KEY_PATH
  client_secret:
    env:
      - name: COMPOSABLE_CLIENT_SECRET
  cluster:
    env:
      - name: COMPOSABLE_CLUSTER
  connect_timeout:
    env:
      - name: COMPOSABLE_CONNECT_TIMEOUT
  credentials_dir:
    env:
      - name: COMPOSABLE_CREDENTIALS_DIR
  driver_options:
    env:
      - name: COMPOSABLE_DRIVER_OPTIONS
  endpoint:
    env:
      - name: COMPOSABLE_ENDPOINT
  layout_endpoint:
    env:
      - name: COMPOSABLE_LAYOUT_ENDPOINT
  machines:
    env:
      - name: COMPOSABLE_MACHINES
  manager:
    env:
      - name: COMPOSABLE_MANAGER
  password:
    env:
      - name: COMPOSABLE_PASSWORD
  read_timeout:
    env:
      - name: COMPOSABLE_READ_TIMEOUT
  realm:
    env:
      - name: COMPOSABLE_REALM
  requests_per_second:
    env:
      - name: COMPOSABLE_REQUESTS_PER_SECOND
  tenant:
    env:
      - name: COMPOSABLE_TENANT
  username:
    env:
      - name: COMPOSABLE_USERNAME
  validate_certs:
    env:
      - name: COMPOSABLE_VALIDATE_CERTS
"""
    CLUSTER = r"""
options:
  api_key:
    env:
      - name: K8S_AUTH_API_KEY
  ca_cert:
    env:
      - name: K8S_AUTH_CA_CERT
      - name: K8S_AUTH_SSL_CA_CERT
  client_cert:
    env:
      - name: K8S_AUTH_CLIENT_CERT
      - name: K8S_AUTH_CERT_FILE
  client_key:
    env:
      - name: K8S_AUTH_CLIENT_KEY
      - name: K8S_AUTH_KEY_FILE
  context:
    env:
      - name: K8S_AUTH_CONTEXT
  host:
    env:
      - name: K8S_AUTH_HOST
  impersonate_groups:
    env:
      - name: K8S_AUTH_IMPERSONATE_GROUPS
  impersonate_user:
    env:
      - name: K8S_AUTH_IMPERSONATE_USER
  kubeconfig:
    env:
      - name: K8S_AUTH_KUBECONFIG
      - name: KUBECONFIG
  no_proxy:
    env:
      - name: K8S_AUTH_NO_PROXY
  proxy:
    env:
      - name: K8S_AUTH_PROXY
"""
