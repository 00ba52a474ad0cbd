# SPDX-License-Identifier: Apache-2.0
"""Reports scheduling results: pod conditions, nominations, events and metrics.

cycle, preemption, plugins ──▶ reporter ─ PodStatusPatch ─▶ API server
queue, cycle, event handlers ──▶ metrics (upstream's names)
"""
