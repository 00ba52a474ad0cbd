"""The plugin's fixtures, also where it isn't installed: pytest finds plugins by their package's metadata."""

from __future__ import annotations

from kubeloop.testing.plugin import cluster, cluster_keys, live_cluster, make_cluster

__all__ = ["cluster", "cluster_keys", "live_cluster", "make_cluster"]
