"""Objects whose owners are gone are deleted; owners that shall outlast or release what they own are made to.

informers of every kind ──▶ graph ──▶ examine ──▶ delete, or release from owners that are gone
kinds, by discovery ─────────▲   └──▶ orphan ───▶ release from the owner, then let that go

Watches: the metadata of every kind that can be listed, watched and deleted, events apart; kinds that come and go.
Owns: nothing.
Writes: deletes objects; takes owner references and the finalizers `orphan` and `foregroundDeletion` from them.
Wakes itself: while an owner is known only by hearsay or of an unknown kind, ever less often; every 30 seconds to ask
    the server for its kinds, and when definitions change.
Differs from upstream: trusts what its informers have seen, and asks the server only about owners that none has; every
    deletion names the version that was judged. An owner whose foreground deletion was begun is looked at when its last
    blocking dependent is gone, not at each. A kind's answer that it isn't served is never taken for an absent owner.
    Kinds are discovered anew when definitions change. While a new kind is being listed no dependents are orphaned.
    There is no queue of graph changes, and so no metrics of it.
"""

from __future__ import annotations

from kubeloop.controllers.app.context import Context
from kubeloop.controllers.app.disabled import Idle
from kubeloop.controllers.garbage_collector.loop import NAME, GarbageCollector
from kubeloop.runtime.manager import Loop


def wire(context: Context) -> Loop:
    return GarbageCollector(context) if context.config.enable_garbage_collector else Idle(NAME)
