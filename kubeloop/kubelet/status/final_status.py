# SPDX-License-Identifier: Apache-2.0
"""Final container statuses of a pod of which nothing runs any more. Pure."""

from __future__ import annotations

import msgspec

from kubeloop.api.generated.core_v1 import ContainerState, ContainerStateTerminated, ContainerStatus, Pod
from kubeloop.kubelet.sync.containers import is_sidecar

Statuses = tuple[ContainerStatus, ...]

# State of a container whose exit was not observed.
STATUS_UNKNOWN = ContainerState(
    terminated=ContainerStateTerminated(
        exit_code=137,
        reason="ContainerStatusUnknown",
        message="The container could not be located when the pod was terminated",
    )
)


def finalize_statuses(pod: Pod, init: Statuses, regular: Statuses) -> tuple[Statuses, Statuses]:
    """Return the final statuses of init and app containers, given those seen last.

    Containers that could have started are terminated; those that never could have started stay waiting.
    """
    if all(one.state.terminated is not None for one in (*init, *regular)):
        return init, regular
    begun = _count_started(init)
    over = regular if not _was_initialized(pod, init, regular) else tuple(map(_terminate_status, regular))
    return (*map(_terminate_status, init[:begun]), *init[begun:]), over


def _terminate_status(status: ContainerStatus) -> ContainerStatus:
    if status.state.terminated is not None:
        return status
    return msgspec.structs.replace(status, state=STATUS_UNKNOWN)


def _has_begun(status: ContainerStatus) -> bool:
    return status.state.waiting is None or status.last_state.terminated is not None


def _count_started(init: Statuses) -> int:
    """Return the number of init containers that could have started: at least the first."""
    last = max((index for index, status in enumerate(init) if _has_begun(status)), default=0)
    return min(last + 1, len(init))


def _was_initialized(pod: Pod, init: Statuses, regular: Statuses) -> bool:
    if not pod.spec.init_containers or any(map(_has_begun, regular)):
        return True
    if not init:
        return False
    container, status = pod.spec.init_containers[-1], init[-1]
    if is_sidecar(container):
        return status.state.running is not None and bool(status.started)
    ends = (status.last_state.terminated, status.state.terminated)
    return any(one is not None and one.exit_code == 0 for one in ends)
