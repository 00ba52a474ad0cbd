# SPDX-License-Identifier: Apache-2.0
"""Background jobs of the server: compaction, event expiry, and the worker thread.

server ──▶ periodic.PeriodicJob ──▶ compaction.Compactor; event_expiry.EventExpiry (its own timer)
registry, handlers, admission ──▶ offload.WorkerThread (expensive computations)
"""
