# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command line of the provider for Cluster Autoscaler."""

from __future__ import annotations

import sys

from ansible_collections.composable.infra.controller.autoscaler.main import main

if __name__ == "__main__":
    sys.exit(main())
