# SPDX-License-Identifier: Apache-2.0
"""Times of the last graceful shutdown: in the file `graceful_node_shutdown_state`, and as metrics."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

import msgspec

from kubeloop.kubelet.checkpoints.store import CheckpointStore
from kubeloop.metrics import MetricRegistry

STATE_FILE = "graceful_node_shutdown_state"
_ZERO = "0001-01-01T00:00:00Z"  # of a shutdown that has not ended

log = logging.getLogger(__name__)


class _ShutdownTimes(msgspec.Struct, rename="camel"):
    start_time: str = _ZERO
    end_time: str = _ZERO


class ShutdownState:
    """Times of one node, in a folder."""

    def __init__(self, folder: Path, registry: MetricRegistry) -> None:
        self._store = CheckpointStore(folder)
        self._start = registry.gauge("kubelet_graceful_shutdown_start_time_seconds").with_labels()
        self._end = registry.gauge("kubelet_graceful_shutdown_end_time_seconds").with_labels()

    def restore(self) -> None:
        """Show the times of the last shutdown, if there was one."""
        try:
            content = self._store.read(STATE_FILE)
            found = _ShutdownTimes() if content is None else msgspec.json.decode(content, type=_ShutdownTimes)
            begin, end = _timestamp(found.start_time), _timestamp(found.end_time)
        except (OSError, msgspec.MsgspecError, ValueError) as error:
            log.error("failed to load graceful shutdown state: %s", error)
            return
        self._start.set(begin)
        self._end.set(end)

    def begin(self, now: datetime) -> None:
        """Record the begin of a shutdown."""
        self._store_times(_ShutdownTimes(_format(now)))
        self._start.set(int(now.timestamp()))
        self._end.set(0)

    def end(self, began: datetime, now: datetime) -> None:
        """Record the end of a shutdown."""
        self._store_times(_ShutdownTimes(_format(began), _format(now)))
        self._end.set(int(now.timestamp()))

    def _store_times(self, times: _ShutdownTimes) -> None:
        try:
            self._store.write(STATE_FILE, msgspec.json.encode(times))
            self._store.path(STATE_FILE).chmod(0o644)
        except OSError as error:
            log.error("failed to store graceful shutdown state: %s", error)


def _format(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _timestamp(text: str) -> int:
    return 0 if text == _ZERO else int(datetime.fromisoformat(text).timestamp())
