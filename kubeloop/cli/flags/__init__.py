# SPDX-License-Identifier: Apache-2.0
"""Flags shared by several programs.

types.py: parsers of values. runtime_config.py: --runtime-config, --feature-gates. chaos.py: --chaos-plan.
"""
