# SPDX-License-Identifier: Apache-2.0
"""CRI messages of containers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated

from kubeloop.grpc.message import GrpcMessage, Unsigned
from kubeloop.kubelet.cri.messages.image import ImageSpec
from kubeloop.kubelet.cri.messages.resources import ContainerResources, LinuxContainerResources
from kubeloop.kubelet.cri.messages.sandbox import PodSandboxConfig
from kubeloop.kubelet.cri.messages.security import (
    Capability,
    IDMapping,
    Int64Value,
    NamespaceOption,
    SecurityProfile,
    SELinuxOption,
    SupplementalGroupsPolicy,
)


class MountPropagation(IntEnum):
    """Propagation of a mount."""

    PRIVATE = 0
    HOST_TO_CONTAINER = 1
    BIDIRECTIONAL = 2


class ContainerState(IntEnum):
    """State of a container."""

    CREATED = 0
    RUNNING = 1
    EXITED = 2
    UNKNOWN = 3


class Signal(IntEnum):
    """Stop signal."""

    RUNTIME_DEFAULT = 0
    SIGABRT = 1
    SIGALRM = 2
    SIGBUS = 3
    SIGCHLD = 4
    SIGCLD = 5
    SIGCONT = 6
    SIGFPE = 7
    SIGHUP = 8
    SIGILL = 9
    SIGINT = 10
    SIGIO = 11
    SIGIOT = 12
    SIGKILL = 13
    SIGPIPE = 14
    SIGPOLL = 15
    SIGPROF = 16
    SIGPWR = 17
    SIGQUIT = 18
    SIGSEGV = 19
    SIGSTKFLT = 20
    SIGSTOP = 21
    SIGSYS = 22
    SIGTERM = 23
    SIGTRAP = 24
    SIGTSTP = 25
    SIGTTIN = 26
    SIGTTOU = 27
    SIGURG = 28
    SIGUSR1 = 29
    SIGUSR2 = 30
    SIGVTALRM = 31
    SIGWINCH = 32
    SIGXCPU = 33
    SIGXFSZ = 34
    SIGRTMIN = 35
    SIGRTMINPLUS1 = 36
    SIGRTMINPLUS2 = 37
    SIGRTMINPLUS3 = 38
    SIGRTMINPLUS4 = 39
    SIGRTMINPLUS5 = 40
    SIGRTMINPLUS6 = 41
    SIGRTMINPLUS7 = 42
    SIGRTMINPLUS8 = 43
    SIGRTMINPLUS9 = 44
    SIGRTMINPLUS10 = 45
    SIGRTMINPLUS11 = 46
    SIGRTMINPLUS12 = 47
    SIGRTMINPLUS13 = 48
    SIGRTMINPLUS14 = 49
    SIGRTMINPLUS15 = 50
    SIGRTMAXMINUS14 = 51
    SIGRTMAXMINUS13 = 52
    SIGRTMAXMINUS12 = 53
    SIGRTMAXMINUS11 = 54
    SIGRTMAXMINUS10 = 55
    SIGRTMAXMINUS9 = 56
    SIGRTMAXMINUS8 = 57
    SIGRTMAXMINUS7 = 58
    SIGRTMAXMINUS6 = 59
    SIGRTMAXMINUS5 = 60
    SIGRTMAXMINUS4 = 61
    SIGRTMAXMINUS3 = 62
    SIGRTMAXMINUS2 = 63
    SIGRTMAXMINUS1 = 64
    SIGRTMAX = 65


class Mount(GrpcMessage, frozen=True, kw_only=True):
    """Mount of a host path, or of an image, in a container."""

    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    readonly: Annotated[bool, 3] = False
    selinux_relabel: Annotated[bool, 4] = False
    propagation: Annotated[MountPropagation, 5] = MountPropagation.PRIVATE
    uid_mappings: Annotated[tuple[IDMapping, ...], 6] = ()
    gid_mappings: Annotated[tuple[IDMapping, ...], 7] = ()
    recursive_read_only: Annotated[bool, 8] = False
    image: Annotated[ImageSpec | None, 9] = None
    image_sub_path: Annotated[str, 10] = ""
    mount_options: Annotated[tuple[str, ...], 11] = ()


class KeyValue(GrpcMessage, frozen=True, kw_only=True):
    """Environment variable."""

    key: Annotated[str, 1] = ""
    value: Annotated[bytes, 2] = b""


class Device(GrpcMessage, frozen=True, kw_only=True):
    """Device of the node in a container."""

    container_path: Annotated[str, 1] = ""
    host_path: Annotated[str, 2] = ""
    permissions: Annotated[str, 3] = ""


class CDIDevice(GrpcMessage, frozen=True, kw_only=True):
    """Device by its CDI name."""

    name: Annotated[str, 1] = ""


class LinuxContainerSecurityContext(GrpcMessage, frozen=True, kw_only=True):
    """Security context of a container."""

    capabilities: Annotated[Capability | None, 1] = None
    privileged: Annotated[bool, 2] = False
    namespace_options: Annotated[NamespaceOption | None, 3] = None
    selinux_options: Annotated[SELinuxOption | None, 4] = None
    run_as_user: Annotated[Int64Value | None, 5] = None
    run_as_group: Annotated[Int64Value | None, 12] = None
    run_as_username: Annotated[str, 6] = ""
    readonly_rootfs: Annotated[bool, 7] = False
    supplemental_groups: Annotated[tuple[int, ...], 8] = ()
    supplemental_groups_policy: Annotated[SupplementalGroupsPolicy, 17] = SupplementalGroupsPolicy.MERGE
    apparmor_profile: Annotated[str, 9] = ""  # for runtimes that do not know `apparmor`
    no_new_privs: Annotated[bool, 11] = False
    masked_paths: Annotated[tuple[str, ...], 13] = ()
    readonly_paths: Annotated[tuple[str, ...], 14] = ()
    seccomp: Annotated[SecurityProfile | None, 15] = None
    apparmor: Annotated[SecurityProfile | None, 16] = None


class LinuxContainerConfig(GrpcMessage, frozen=True, kw_only=True):
    """Settings of a container on Linux."""

    resources: Annotated[LinuxContainerResources | None, 1] = None
    security_context: Annotated[LinuxContainerSecurityContext | None, 2] = None


class ContainerMetadata(GrpcMessage, frozen=True, kw_only=True):
    """Name of a container, and the number of its earlier runs."""

    name: Annotated[str, 1] = ""
    attempt: Annotated[int, Unsigned(2)] = 0


class ContainerConfig(GrpcMessage, frozen=True, kw_only=True):
    """Settings of a container."""

    metadata: Annotated[ContainerMetadata | None, 1] = None
    image: Annotated[ImageSpec | None, 2] = None
    command: Annotated[tuple[str, ...], 3] = ()
    args: Annotated[tuple[str, ...], 4] = ()
    working_dir: Annotated[str, 5] = ""
    envs: Annotated[tuple[KeyValue, ...], 6] = ()
    mounts: Annotated[tuple[Mount, ...], 7] = ()
    devices: Annotated[tuple[Device, ...], 8] = ()
    labels: Annotated[Mapping[str, str], 9] = {}
    annotations: Annotated[Mapping[str, str], 10] = {}
    log_path: Annotated[str, 11] = ""
    stdin: Annotated[bool, 12] = False
    stdin_once: Annotated[bool, 13] = False
    tty: Annotated[bool, 14] = False
    linux: Annotated[LinuxContainerConfig | None, 15] = None
    cdi_devices: Annotated[tuple[CDIDevice, ...], 17] = ()
    stop_signal: Annotated[Signal, 18] = Signal.RUNTIME_DEFAULT


class CreateContainerRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of CreateContainer."""

    pod_sandbox_id: Annotated[str, 1] = ""
    config: Annotated[ContainerConfig | None, 2] = None
    sandbox_config: Annotated[PodSandboxConfig | None, 3] = None


class CreateContainerResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of CreateContainer."""

    container_id: Annotated[str, 1] = ""


class StartContainerRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of StartContainer."""

    container_id: Annotated[str, 1] = ""


class StartContainerResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of StartContainer."""


class StopContainerRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of StopContainer."""

    container_id: Annotated[str, 1] = ""
    timeout: Annotated[int, 2] = 0


class StopContainerResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of StopContainer."""


class RemoveContainerRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of RemoveContainer."""

    container_id: Annotated[str, 1] = ""


class RemoveContainerResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of RemoveContainer."""


class ContainerStateValue(GrpcMessage, frozen=True, kw_only=True):
    """State that a filter selects."""

    state: Annotated[ContainerState, 1] = ContainerState.CREATED


class ContainerFilter(GrpcMessage, frozen=True, kw_only=True):
    """Selection of containers; all fields must match."""

    id: Annotated[str, 1] = ""
    state: Annotated[ContainerStateValue | None, 2] = None
    pod_sandbox_id: Annotated[str, 3] = ""
    label_selector: Annotated[Mapping[str, str], 4] = {}


class ListContainersRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of ListContainers."""

    filter: Annotated[ContainerFilter | None, 1] = None


class Container(GrpcMessage, frozen=True, kw_only=True):
    """Container in a list."""

    id: Annotated[str, 1] = ""
    pod_sandbox_id: Annotated[str, 2] = ""
    metadata: Annotated[ContainerMetadata | None, 3] = None
    image: Annotated[ImageSpec | None, 4] = None
    image_ref: Annotated[str, 5] = ""
    state: Annotated[ContainerState, 6] = ContainerState.CREATED
    created_at: Annotated[int, 7] = 0
    labels: Annotated[Mapping[str, str], 8] = {}
    annotations: Annotated[Mapping[str, str], 9] = {}
    image_id: Annotated[str, 10] = ""


class ListContainersResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of ListContainers."""

    containers: Annotated[tuple[Container, ...], 1] = ()


class ContainerStatusRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of ContainerStatus."""

    container_id: Annotated[str, 1] = ""
    verbose: Annotated[bool, 2] = False


class LinuxContainerUser(GrpcMessage, frozen=True, kw_only=True):
    """User and groups of the first process."""

    uid: Annotated[int, 1] = 0
    gid: Annotated[int, 2] = 0
    supplemental_groups: Annotated[tuple[int, ...], 3] = ()


class ContainerUser(GrpcMessage, frozen=True, kw_only=True):
    """User of the first process."""

    linux: Annotated[LinuxContainerUser | None, 1] = None


class ContainerStatus(GrpcMessage, frozen=True, kw_only=True):
    """State of a container."""

    id: Annotated[str, 1] = ""
    metadata: Annotated[ContainerMetadata | None, 2] = None
    state: Annotated[ContainerState, 3] = ContainerState.CREATED
    created_at: Annotated[int, 4] = 0
    started_at: Annotated[int, 5] = 0
    finished_at: Annotated[int, 6] = 0
    exit_code: Annotated[int, 7] = 0
    image: Annotated[ImageSpec | None, 8] = None
    image_ref: Annotated[str, 9] = ""
    reason: Annotated[str, 10] = ""
    message: Annotated[str, 11] = ""
    labels: Annotated[Mapping[str, str], 12] = {}
    annotations: Annotated[Mapping[str, str], 13] = {}
    mounts: Annotated[tuple[Mount, ...], 14] = ()
    log_path: Annotated[str, 15] = ""
    resources: Annotated[ContainerResources | None, 16] = None
    image_id: Annotated[str, 17] = ""
    user: Annotated[ContainerUser | None, 18] = None
    stop_signal: Annotated[Signal, 19] = Signal.RUNTIME_DEFAULT


class ContainerStatusResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of ContainerStatus."""

    status: Annotated[ContainerStatus | None, 1] = None
    info: Annotated[Mapping[str, str], 2] = {}


class UpdateContainerResourcesRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of UpdateContainerResources."""

    container_id: Annotated[str, 1] = ""
    linux: Annotated[LinuxContainerResources | None, 2] = None
    annotations: Annotated[Mapping[str, str], 4] = {}


class UpdateContainerResourcesResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of UpdateContainerResources."""


class ReopenContainerLogRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of ReopenContainerLog."""

    container_id: Annotated[str, 1] = ""


class ReopenContainerLogResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of ReopenContainerLog."""


class CheckpointContainerRequest(GrpcMessage, frozen=True, kw_only=True):
    """Request of CheckpointContainer."""

    container_id: Annotated[str, 1] = ""
    location: Annotated[str, 2] = ""
    timeout: Annotated[int, 3] = 0


class CheckpointContainerResponse(GrpcMessage, frozen=True, kw_only=True):
    """Response of CheckpointContainer."""
