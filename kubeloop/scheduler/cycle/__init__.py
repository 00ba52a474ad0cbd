"""Scheduling and binding cycles.

loop (pop a pod) ──▶ algorithm ──▶ scheduling_cycle: signature_results, filter, score, select
     └─▶ algorithm: reserve, permit ──▶ binding: waiting_pods (permit), PreBind, Bind, PostBind
"""
