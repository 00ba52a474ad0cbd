"""Pods run until a Job's work is done: as many at once as it allows, each counted once, again when one fails.

job, pod ── wiring ──▶ queue ──▶ reconciler ── observed: what runs, what has ended
                                   │ ending: is it over, and how?      (failure_policy, success_policy)
                                   │ scaling: which pods come and go?  (backoff, indexes)
                                   │ tracking: note, let go, count     (own_writes: what caches don't show yet)
                                   └──▶ acting on pods, and one or two patches of the status

Watches: jobs; pods.
Owns: pods that match the selector, held by the finalizer `batch.kubernetes.io/job-tracking` until they are counted.
Writes: creates, deletes and patches pods; patches the status of jobs, if nobody has changed the job meanwhile.
Wakes itself: when failed pods may be replaced, when a job has been active for too long, when a cache lags behind.
Differs from upstream: changes of pods gather for a tenth of a second instead of a whole one; where no pod has to be
let go, a job's interim and final condition are written at once; a creation whose answer was lost is looked for before
another is made. Jobs and orphaned pods share one queue. Workload and PodGroup objects (alpha) are not made.
"""

from __future__ import annotations

from kubeloop.controllers.job.wiring import NAME, wire

__all__ = ["NAME", "wire"]
