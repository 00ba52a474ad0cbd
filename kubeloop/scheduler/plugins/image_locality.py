"""ImageLocality: rather a node that has the pod's images already."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubeloop.scheduler.cache.cluster import ClusterState, Rows
from kubeloop.scheduler.cache.pod_info import PodInfo
from kubeloop.scheduler.framework.plugin import MAX_SCORE, SKIP, Plugin, Skip

_MIB: Final = 1024 * 1024
# Less than this is pulled at once, and more than that, for each image, makes no difference any more.
LEAST: Final = 23 * _MIB
MOST: Final = 1000 * _MIB


class ImageLocality(Plugin):
    """Scores by megabytes that need not be pulled."""

    name = "ImageLocality"
    follows_pods = False

    def stamp(self, cluster: ClusterState) -> int:
        return cluster.images.version + cluster.structure

    def prescore(self, pod: PodInfo, cluster: ClusterState) -> tuple[NDArray[np.int64], int] | Skip:
        names = pod.template.images
        present = cluster.images.local(names, max(len(cluster), 1))
        if not present.any():
            return SKIP
        most = MOST * len(names)
        return np.clip(present, LEAST, most) - LEAST, most - LEAST

    def score(self, state: tuple[NDArray[np.int64], int], cluster: ClusterState, rows: Rows) -> NDArray[np.int64]:
        present, span = state
        return MAX_SCORE * present[rows] // span
