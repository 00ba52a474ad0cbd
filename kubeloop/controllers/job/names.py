# SPDX-License-Identifier: Apache-2.0
"""Annotation, label and finalizer names of jobs and their pods, as in upstream."""

from __future__ import annotations

from typing import Final

TRACKING: Final = "batch.kubernetes.io/job-tracking"  # finalizer of a pod that is not counted yet
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"  # annotation and label
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
MANAGER: Final = "kubernetes.io/job-controller"  # manager of jobs without `managedBy`
