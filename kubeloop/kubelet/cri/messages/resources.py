# SPDX-License-Identifier: Apache-2.0
"""CRI messages of resource limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from kubeloop.grpc.message import GrpcMessage, Unsigned


class HugepageLimit(GrpcMessage, frozen=True, kw_only=True):
    """Limit of one page size, such as 2MB."""

    page_size: Annotated[str, 1] = ""
    limit: Annotated[int, Unsigned(2)] = 0


class LinuxContainerResources(GrpcMessage, frozen=True, kw_only=True):
    """Resource limits of a container or sandbox."""

    cpu_period: Annotated[int, 1] = 0
    cpu_quota: Annotated[int, 2] = 0
    cpu_shares: Annotated[int, 3] = 0
    memory_limit_in_bytes: Annotated[int, 4] = 0
    oom_score_adj: Annotated[int, 5] = 0
    cpuset_cpus: Annotated[str, 6] = ""
    cpuset_mems: Annotated[str, 7] = ""
    hugepage_limits: Annotated[tuple[HugepageLimit, ...], 8] = ()
    unified: Annotated[Mapping[str, str], 9] = {}
    memory_swap_limit_in_bytes: Annotated[int, 10] = 0


class ContainerResources(GrpcMessage, frozen=True, kw_only=True):
    """Resources that the runtime has applied."""

    linux: Annotated[LinuxContainerResources | None, 1] = None
