# SPDX-License-Identifier: Apache-2.0
"""Deletes objects whose owners are gone, and performs foreground and orphaning deletion.

informers of every kind ──▶ graph ──▶ examine ──▶ delete, or remove references to absent owners
kinds, by discovery ─────────▲   └──▶ orphan ───▶ remove references to the owner, then its finalizer

Watches: the metadata of every kind that can be listed, watched and deleted, except events; kinds that are added or
  removed.
Owns: nothing.
Writes: deletes objects; removes owner references and the finalizers `orphan` and `foregroundDeletion` from them.
Wakes itself: while an owner is known only from references or of an unknown kind, with growing delays; every 30 seconds
  to discover the server's kinds, and when definitions change.
Differs from upstream: relies on its informers, and asks the server only about owners that none of them has seen; every
  deletion requires the version that was evaluated. An owner in foreground deletion is examined when its last blocking
  dependent is gone, not at each. An error that a kind is not served never counts as an absent owner. Kinds are
  discovered again when definitions change. While a new kind is being listed, no dependents are orphaned. There is no
  queue of graph changes, and so there are no metrics of it.
"""

from __future__ import annotations

from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.app.disabled_controller import DisabledController
from kubeloop.controllers.garbage_collector.controller import NAME, GarbageCollector
from kubeloop.runtime.manager import Loop


def wire(context: ControllerContext) -> Loop:
    """Build the controller, or a disabled one if --enable-garbage-collector is false."""
    return GarbageCollector(context) if context.config.enable_garbage_collector else DisabledController(NAME)
