# SPDX-License-Identifier: Apache-2.0
"""Summary of a run of `kubeloop up` after Ctrl-C: duration, objects, state, and how to go on."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator

from kubeloop.api.scalars.times import human_age
from kubeloop.cli.local_clusters.registry import ClusterRegistry
from kubeloop.cli.up.control_plane import RunningControlPlane
from kubeloop.clock import SystemClock

_WIDTH = 9


def summary_of(plane: RunningControlPlane, options: argparse.Namespace) -> str:
    """Return the summary as lines of text."""
    age = human_age(plane.record.started, SystemClock().now())
    head = f"Cluster {plane.record.name!r} ran for {age} with {plane.count_objects()} objects."
    lines = (f"  {title + ':':<{_WIDTH}}{text}" for title, text in _advice(plane, options))
    return "\n".join((head, *lines))


def _advice(plane: RunningControlPlane, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    folder = plane.record.data_dir
    yield "State", _state(folder, options.store or "")
    yield "Restart", shlex.join(("kubeloop", *options.arguments))
    if not folder or (options.store or "").startswith("etcd://"):
        return
    is_own = folder == str(ClusterRegistry().data_dir(plane.record.name))
    yield "Delete", f"kubeloop delete {plane.record.name}" if is_own else shlex.join(("rm", "-r", folder))


def _state(folder: str, store: str) -> str:
    """Describe where the state is."""
    if not folder:
        return "was in memory, and is gone"
    if store == "memory":
        return f"was in memory, and is gone; keys are in {folder}"
    if store.startswith("etcd://"):
        return f"{store}; keys are in {folder}"
    return folder
