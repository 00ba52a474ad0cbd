# SPDX-License-Identifier: Apache-2.0
"""ImageLocality: prefers nodes that already have the pod's images."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.cache.cluster import ClusterState, Rows
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.plugin import MAX_SCORE, SKIP, Plugin, Skip

_MIB: Final = 1024 * 1024
# Thresholds: smaller sizes score 0; larger sizes, per image, score no more.
MIN_THRESHOLD: Final = 23 * _MIB
MAX_CONTAINER_THRESHOLD: Final = 1000 * _MIB


class ImageLocality(Plugin):
    """Scores by the size of the images that need not be pulled."""

    name = "ImageLocality"
    depends_on_pods = False

    def state_version(self, cluster: ClusterState) -> int:
        """Return a version of the images and nodes."""
        return cluster.images.version + cluster.row_set_version

    def pre_score(self, pod: PodInfo, cluster: ClusterState) -> tuple[NDArray[np.int64], int] | Skip:
        """Return the scaled image sizes by row; SKIP if no node has any of the images."""
        names = pod.signature.images
        present = cluster.images.scaled_sizes(names, max(len(cluster), 1))
        if not present.any():
            return SKIP
        most = MAX_CONTAINER_THRESHOLD * len(names)
        return np.clip(present, MIN_THRESHOLD, most) - MIN_THRESHOLD, most - MIN_THRESHOLD

    def score(self, state: tuple[NDArray[np.int64], int], cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        """Return the share of the image sizes between the thresholds."""
        present, span = state
        return MAX_SCORE * present[rows] // span
