"""Scheduler extenders: external HTTP servers that filter, prioritize, preempt and bind.

cycle loop, default_preemption, binding ──▶ extender ──▶ http (JSON over POST)
"""
