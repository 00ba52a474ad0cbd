# SPDX-License-Identifier: Apache-2.0
"""Plugins for pod groups: the minimum of a gang, placements by topology, and their scores."""
