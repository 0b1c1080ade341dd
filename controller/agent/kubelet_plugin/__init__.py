# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet plugin of the node agent, a DRA driver of this project.

It runs only if it has a name. It needs ``grpcio``.
"""
