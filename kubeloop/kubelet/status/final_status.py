"""What statuses say of containers once nothing of their pod runs any more. Pure."""

from __future__ import annotations

import msgspec

from kubeloop.api.generated.core_v1 import ContainerState, ContainerStateTerminated, ContainerStatus, Pod
from kubeloop.kubelet.sync.containers import is_sidecar

Statuses = tuple[ContainerStatus, ...]

# Of a container that didn't end, and may have done anything for all that is known.
UNKNOWN = ContainerState(
    terminated=ContainerStateTerminated(
        exit_code=137,
        reason="ContainerStatusUnknown",
        message="The container could not be located when the pod was terminated",
    )
)


def final(pod: Pod, init: Statuses, regular: Statuses) -> tuple[Statuses, Statuses]:
    """Containers that had their turn are over, whatever they were about; those that never could have begun still wait.

    `init` and `regular` as they were seen last.
    """
    if all(one.state.terminated is not None for one in (*init, *regular)):
        return init, regular
    begun = _begun(init)
    over = regular if not _was_initialized(pod, init, regular) else tuple(map(_ended, regular))
    return (*map(_ended, init[:begun]), *init[begun:]), over


def _ended(status: ContainerStatus) -> ContainerStatus:
    if status.state.terminated is not None:
        return status
    return msgspec.structs.replace(status, state=UNKNOWN)


def _has_begun(status: ContainerStatus) -> bool:
    return status.state.waiting is None or status.last_state.terminated is not None


def _begun(init: Statuses) -> int:
    """How many init containers had their turn: the first in any case."""
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
