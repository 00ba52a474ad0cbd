"""Background jobs of the server: compaction, event expiry, and the worker thread.

server ──▶ periodic.Periodic ──▶ compaction.Compactor; event_expiry.EventExpiry (its own timer)
registry, handlers, admission ──▶ offload.Aside (worker thread for long computations)
"""
