"""Pod sync: brings the containers of each pod to the state that its spec requires.

pod informer ──▶ pod_worker ──▶ pod_syncer: observe (Runtime) ─ decide ─ act (Runtime) ──▶ status.generate ──▶ patch
decide, termination, restart and containers are pure and fill a decision; pod_state is kept between syncs.
"""
