# SPDX-License-Identifier: Apache-2.0
"""Topology: aligns the CPUs, memory and devices of containers on NUMA nodes.

admission ─▶ TopologyManager ─ hints ─▶ HintProviders (CPU, memory, device managers) ─ merged hint ─▶ their allocation
"""
