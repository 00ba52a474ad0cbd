"""Node-pressure eviction.

node annotations ──▶ thresholds (pressure conditions) ──▶ manager, at each heartbeat ──▶ ranking ──▶ PodStates.evict
"""
