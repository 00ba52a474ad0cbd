# SPDX-License-Identifier: Apache-2.0
"""Controller runtime shared by all controllers: from changes on a server to `reconcile(key)`, and back as writes.

informer/: reflector ── list and watch ──▶ informer ── cache, handlers ──▶ queue/: work queue ── one key ──┐
    ▲                                                                                                      ▼
  client ◀── writes, each with its cause ── reconcile(key) ◀── worker (controller.py): backoff, health, journal
supervisor.py restarts controllers, manager.py runs them all, app.py also runs their informers and event recorder,
leaderelection/ guards their writes. assume_cache.py and consistency_store.py: read your own writes.
objects/: owner references, finalizers, adoption. events/: event recorder. crd/, webhook/: for operators.
"""
