"""The machinery that every loop shares: from changes on a server to `reconcile(key)`, and back as writes.

reflector ── list and watch ──▶ informer ── cache, handlers ──▶ workqueue ── one key, all its origins ──┐
    ▲                                                                                                   ▼
  client ◀── writes, each with its cause ── reconcile(key) ◀── worker (controller): backoff, health, journal
                                                │
           expectations, claim, slow_start, finalizers: what reconciles have in common
"""
