# SPDX-License-Identifier: Apache-2.0
"""Node-pressure eviction.

node annotations ──▶ thresholds (pressure conditions) ──▶ manager, at each heartbeat ──▶ ranking ──▶ PodStates.evict
"""
