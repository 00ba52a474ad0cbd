# SPDX-License-Identifier: Apache-2.0
"""CRI messages of security contexts and namespaces."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from kubeloop.grpc.message import GrpcMessage, Unsigned


class NamespaceMode(IntEnum):
    """Owner of a namespace."""

    POD = 0
    CONTAINER = 1
    NODE = 2
    TARGET = 3


class SupplementalGroupsPolicy(IntEnum):
    """Source of the supplemental groups."""

    MERGE = 0
    STRICT = 1


class ProfileType(IntEnum):
    """Kind of a profile."""

    RUNTIME_DEFAULT = 0
    UNCONFINED = 1
    LOCALHOST = 2


class IDMapping(GrpcMessage, frozen=True, kw_only=True):
    """Range of user or group IDs, inside and on the node."""

    host_id: Annotated[int, Unsigned(1)] = 0
    container_id: Annotated[int, Unsigned(2)] = 0
    length: Annotated[int, Unsigned(3)] = 0


class UserNamespace(GrpcMessage, frozen=True, kw_only=True):
    """User namespace and its ID mappings."""

    mode: Annotated[NamespaceMode, 1] = NamespaceMode.POD
    uids: Annotated[tuple[IDMapping, ...], 2] = ()
    gids: Annotated[tuple[IDMapping, ...], 3] = ()


class NamespaceOption(GrpcMessage, frozen=True, kw_only=True):
    """Namespaces of a container or sandbox."""

    network: Annotated[NamespaceMode, 1] = NamespaceMode.POD
    pid: Annotated[NamespaceMode, 2] = NamespaceMode.POD
    ipc: Annotated[NamespaceMode, 3] = NamespaceMode.POD
    target_id: Annotated[str, 4] = ""
    userns_options: Annotated[UserNamespace | None, 5] = None


class Int64Value(GrpcMessage, frozen=True, kw_only=True):
    """Integer that may be absent."""

    value: Annotated[int, 1] = 0


class SELinuxOption(GrpcMessage, frozen=True, kw_only=True):
    """SELinux label."""

    user: Annotated[str, 1] = ""
    role: Annotated[str, 2] = ""
    type: Annotated[str, 3] = ""
    level: Annotated[str, 4] = ""


class SecurityProfile(GrpcMessage, frozen=True, kw_only=True):
    """Seccomp or AppArmor profile."""

    profile_type: Annotated[ProfileType, 1] = ProfileType.RUNTIME_DEFAULT
    localhost_ref: Annotated[str, 2] = ""


class Capability(GrpcMessage, frozen=True, kw_only=True):
    """Linux capabilities to add and to drop."""

    add_capabilities: Annotated[tuple[str, ...], 1] = ()
    drop_capabilities: Annotated[tuple[str, ...], 2] = ()
    add_ambient_capabilities: Annotated[tuple[str, ...], 3] = ()
