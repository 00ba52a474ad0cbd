# SPDX-License-Identifier: Apache-2.0
"""Pod groups: gangs of pods that are scheduled together, with the feature gate GenericWorkload.

event_handlers ─▶ manager (groups, their members, what is assumed) ◀─ plugins.gang_scheduling
queue.pod_group_queue ─ pop ─▶ cycle ─ algorithm (all pods in memory, then undone) ─▶ results (bindings, failures)
"""
