"""Names that jobs, their pods and the loop agree on, as upstream has them."""

from __future__ import annotations

from typing import Final

TRACKING: Final = "batch.kubernetes.io/job-tracking"  # the finalizer of a pod that is not counted yet
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"  # annotation and label
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
MANAGER: Final = "kubernetes.io/job-controller"  # of jobs whose `managedBy` says nothing else
