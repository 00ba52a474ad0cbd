# SPDX-License-Identifier: Apache-2.0
"""Scheduler extenders: external HTTP servers that filter, prioritize, preempt and bind.

cycle loop, default_preemption, binding ──▶ extender ──▶ http (JSON over POST)
"""
