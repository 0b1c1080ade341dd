# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cloud provider (externalgrpc) for an unmodified Cluster Autoscaler.

When Cluster Autoscaler wants to grow, the provider decides whether to attach a device or to add a
node.
"""
