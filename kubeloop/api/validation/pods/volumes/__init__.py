# SPDX-License-Identifier: Apache-2.0
"""Validation of a pod's volumes: sources, projections, downward API files and mounts."""
