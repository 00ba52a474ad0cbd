# SPDX-License-Identifier: Apache-2.0
"""Scheduling and binding cycles.

loop (pop a pod) ──▶ attempts ──▶ algorithm ──▶ scheduling_cycle: signature_results, filter, score, select
                        └─▶ results ──▶ algorithm: reserve, permit ──▶ binding ──▶ bind_plugins: permit, PreBind, Bind
                               └─▶ failure_handler (queue, status) ◀── binding_results ◀──┘
"""
