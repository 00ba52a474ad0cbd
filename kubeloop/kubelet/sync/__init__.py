# SPDX-License-Identifier: Apache-2.0
"""Pod sync: brings the containers of each pod to the state that its spec requires.

pod informer ──▶ sync_queues ──▶ pod_workers ──▶ pod_syncer: observe (Runtime) ─ decide ─ act (Runtime)
                                      └─▶ status.generate ──▶ status.status_manager ──▶ patch
decide, termination, restart and containers are pure and fill a decision; pod_states keeps a pod_state between syncs.
"""
