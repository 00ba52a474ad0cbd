"""Reports scheduling results: pod conditions, nominations, events and metrics.

cycle, preemption, plugins ──▶ reporter ─ status_patch ─▶ API server
queue, cycle, event handlers ──▶ metrics (upstream's names)
"""
