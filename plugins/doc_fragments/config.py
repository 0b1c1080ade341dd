# Copyright (c) 2026 composable.infra contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the options that give the engine's configuration."""

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
  config_path:
    description:
      - Path of the configuration file, the same file that the controller reads.
      - If not set, E(COMPOSABLE_CONFIG_PATH) is used.
    type: path
"""
