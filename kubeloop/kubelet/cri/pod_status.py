# SPDX-License-Identifier: Apache-2.0
"""Observed state of a pod, from the statuses of its sandboxes and containers."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kubeloop.api.generated.core_v1 import ContainerUser, LinuxContainerUser
from kubeloop.kubelet.cm.cgroups.resource_config import quota_to_milli_cpu, shares_to_milli_cpu
from kubeloop.kubelet.cri.config.labels import CONTAINER_NAME, read_container_facts
from kubeloop.kubelet.cri.container_logs import last_lines
from kubeloop.kubelet.cri.messages.container import ContainerState, ContainerStatus
from kubeloop.kubelet.cri.messages.sandbox import PodSandboxState, PodSandboxStatus
from kubeloop.kubelet.runtime import ContainerRun, EffectiveResources, PodObservation, RunState

_STATES: Mapping[int, RunState] = {
    ContainerState.CREATED: "created",
    ContainerState.RUNNING: "running",
    ContainerState.EXITED: "exited",
    ContainerState.UNKNOWN: "exited",
}
_UNKNOWN_EXIT = 137  # of a container whose exit the runtime did not see
_LONGEST_MESSAGE, _LOG_LINES, _LOG_BYTES = 4096, 80, 2048
_NANO = 1_000_000_000


def newest_sandbox(sandboxes: Sequence[PodSandboxStatus]) -> PodSandboxStatus | None:
    """Return the sandbox that was created last."""
    return max(sandboxes, key=lambda one: one.created_at, default=None)


def addresses_of(sandbox: PodSandboxStatus | None, host_addresses: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the addresses of a pod, of the node for pods in its network; None without a working sandbox."""
    if sandbox is None or sandbox.state != PodSandboxState.READY:
        return None
    network = sandbox.network
    if network is None or not network.ip:
        return host_addresses
    return (network.ip, *(one.ip for one in network.additional_ips))


def observe_pod(
    addresses: tuple[str, ...] | None, sandbox_id: str, runs: Sequence[tuple[str, ContainerRun]]
) -> PodObservation:
    """Return the observation of a pod; each run comes with the ID of its sandbox."""
    by_name: dict[str, list[ContainerRun]] = defaultdict(list)
    for owner, run in sorted(runs, key=lambda one: one[1].created_at, reverse=True):
        is_current = owner == sandbox_id and addresses is not None
        found = run if is_current else msgspec.structs.replace(run, is_in_current_sandbox=False)
        by_name[run.container].append(found)
    return PodObservation(addresses=addresses, runs={name: tuple(found) for name, found in by_name.items()})


def run_of(status: ContainerStatus, scheme: str) -> ContainerRun:
    """Return the run that a container status describes."""
    facts = read_container_facts(status.annotations)
    is_unknown = status.state == ContainerState.UNKNOWN
    run = ContainerRun(
        container=status.labels.get(CONTAINER_NAME, ""),
        id=f"{scheme}://{status.id}",
        attempt=facts.restart_count,
        image=status.image.image if status.image is not None else "",
        image_id=status.image_ref,
        state=_STATES[status.state],
        created_at=_moment(status.created_at) or datetime.fromtimestamp(0, UTC),
        started_at=_moment(status.started_at),
        finished_at=_moment(status.finished_at),
        exit_code=_UNKNOWN_EXIT if is_unknown else status.exit_code,
        reason="ContainerStatusUnknown" if is_unknown else status.reason,
        message=status.message,
        effective=_effective(status),
        user=_user(status),
    )
    if run.state != "exited":
        return run
    return msgspec.structs.replace(run, message=_with_termination_message(status, run))


def _effective(status: ContainerStatus) -> EffectiveResources | None:
    """Return the resources that the runtime reports; older ones report none."""
    linux = status.resources.linux if status.resources is not None else None
    if linux is None:
        return None
    found = EffectiveResources(
        shares_to_milli_cpu(linux.cpu_shares),
        max(quota_to_milli_cpu(linux.cpu_quota, linux.cpu_period), 0),
        max(linux.memory_limit_in_bytes, 0),
    )
    return found if found != EffectiveResources() else None


def _user(status: ContainerStatus) -> ContainerUser | None:
    linux = status.user.linux if status.user is not None else None
    if linux is None:
        return None
    groups = linux.supplemental_groups
    return ContainerUser(linux=LinuxContainerUser(uid=linux.uid, gid=linux.gid, supplemental_groups=groups))


def _with_termination_message(status: ContainerStatus, run: ContainerRun) -> str:
    """Return the message of the runtime and that of the container, which may be the end of its log."""
    facts = read_container_facts(status.annotations)
    own = _termination_message(status, facts.message_path)
    falls_back = facts.message_policy == "FallbackToLogsOnError" and run.reason != "ContainerCannotRun"
    if not own and falls_back and run.exit_code:
        try:
            own = last_lines(Path(status.log_path), _LOG_LINES, _LOG_BYTES)
        except OSError as error:
            own = f"Error on reading termination message from logs: {error}"
    return ": ".join(one for one in (status.message, own) if one)


def _termination_message(status: ContainerStatus, path: str) -> str:
    mount = next((one for one in status.mounts if path and one.container_path == path), None)
    if mount is None:
        return ""
    try:
        with Path(mount.host_path).open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _LONGEST_MESSAGE, 0))
            return file.read(_LONGEST_MESSAGE).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"Error on reading termination log {mount.host_path}: {error}"


def _moment(nanoseconds: int) -> datetime | None:
    if nanoseconds <= 0:
        return None
    seconds, rest = divmod(nanoseconds, _NANO)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
