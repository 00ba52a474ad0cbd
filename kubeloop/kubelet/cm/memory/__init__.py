# SPDX-License-Identifier: Apache-2.0
"""Memory manager of a real node: memory and huge pages of Guaranteed containers, by NUMA node.

MemoryManager ─▶ static_memory ─▶ machine_memory: what NUMA nodes have and groups of them share (pure)
             └─▶ state: the checkpoint `memory_manager_state`
"""
