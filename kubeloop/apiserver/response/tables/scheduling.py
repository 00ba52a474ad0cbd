# SPDX-License-Identifier: Apache-2.0
"""Printers of pod groups, and of other resources that are disabled by default."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from kubeloop.apiserver.response.tables.model import AGE, NAME, Cells, Printer, column, integer_column
from kubeloop.apiserver.response.tables.text import NONE, format_age, format_age_since, format_shortened

if TYPE_CHECKING:
    from kubeloop.api.generated.apiserverinternal_v1alpha1 import StorageVersion
    from kubeloop.api.generated.coordination_v1beta1 import LeaseCandidate
    from kubeloop.api.generated.resource_v1alpha3 import ResourcePoolStatusRequest, ResourcePoolStatusRequestStatus

_UNSET = "<unset>"


def _group_cells(group: Any, now: datetime) -> Cells:
    return [group.metadata.name, *_policy_and_workload(group), _group_state(group), format_age(group, now)]


def _composite_cells(group: Any, now: datetime) -> Cells:
    return [group.metadata.name, *_policy_and_workload(group), format_age(group, now)]


def _policy_and_workload(group: Any) -> tuple[str, str]:
    policy = "Basic" if group.spec.scheduling_policy.gang is None else "Gang"
    reference = group.spec.workload_ref
    return policy, NONE if reference is None else reference.workload_name


def _group_state(group: Any) -> str:
    conditions = {one.type: one for one in group.status.conditions}
    if "DisruptionTarget" in conditions:
        return str(conditions["DisruptionTarget"].reason)
    scheduled = conditions.get("PodGroupInitiallyScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.status == "True" else "Unschedulable"


def _request_cells(request: ResourcePoolStatusRequest, now: datetime) -> Cells:
    status = request.status
    state, moment = ("Pending", None) if status is None else _request_state(status)
    counts = ["-"] * 5 if status is None or state == "Failed" else _counts(status)
    pools = 0 if status is None else status.pool_count or 0
    if status is not None and state == "Complete" and pools > len(status.pools):
        state = f"Complete ({len(status.pools)}/{pools} pools)"
    completed = NONE if moment is None else format_age_since(moment, now)
    return [request.metadata.name, request.spec.driver, *counts, pools, state, completed]


def _request_state(status: ResourcePoolStatusRequestStatus) -> tuple[str, str | None]:
    for condition in status.conditions:
        if condition.status == "True" and condition.type == "Complete":
            return "Complete", condition.last_transition_time
        if condition.status == "True" and condition.type == "Failed":
            return "Failed", None
    return "Pending", None


def _counts(status: ResourcePoolStatusRequestStatus) -> list[str]:
    """Return total, available, allocated and unavailable devices, and the number of invalid pools."""
    names = ("total_devices", "available_devices", "allocated_devices", "unavailable_devices")
    sums = [sum(getattr(pool, name) or 0 for pool in status.pools) for name in names]
    wrong = sum(pool.validation_error is not None for pool in status.pools)
    return [str(one) for one in (*sums, wrong)]


def _candidate_cells(candidate: LeaseCandidate, now: datetime) -> Cells:
    spec = candidate.spec
    return [
        candidate.metadata.name,
        spec.lease_name,
        spec.binary_version,
        spec.emulation_version,
        format_age(candidate, now),
    ]


def _version_cells(version: StorageVersion, now: datetime) -> Cells:
    status = version.status
    servers = [f"{one.api_server_id}={one.encoding_version}" for one in status.storage_versions]
    common = _UNSET if status.common_encoding_version is None else status.common_encoding_version
    return [version.metadata.name, common, format_shortened(servers) or _UNSET, format_age(version, now)]


_POLICY = column("Policy", "Scheduling policy.")
_WORKLOAD = column("Workload", "Workload of the group.")

POD_GROUP = Printer(
    columns=(NAME, _POLICY, _WORKLOAD, column("Status", "Scheduling state."), AGE),
    cells=_group_cells,
)
COMPOSITE_POD_GROUP = Printer(columns=(NAME, _POLICY, _WORKLOAD, AGE), cells=_composite_cells)
POOL_STATUS_REQUEST = Printer(
    columns=(
        NAME,
        column("Driver", "Driver of the pools."),
        column("Total", "Number of devices in all pools."),
        column("Available", "Number of available devices."),
        column("Allocated", "Number of allocated devices."),
        column("Unavailable", "Number of unavailable devices."),
        column("Errors", "Number of pools with validation errors."),
        integer_column("Pools", "Number of pools."),
        column("Status", "State of the request."),
        column("Completed", "Time since completion."),
    ),
    cells=_request_cells,
)
LEASE_CANDIDATE = Printer(
    columns=(
        NAME,
        column("LeaseName", "Lease of the election."),
        column("BinaryVersion", "Binary version of the candidate."),
        column("EmulationVersion", "Emulation version of the candidate."),
        AGE,
    ),
    cells=_candidate_cells,
)
STORAGE_VERSION = Printer(
    columns=(
        NAME,
        column("CommonEncodingVersion", "Encoding version common to all API servers."),
        column("StorageVersions", "Encoding version of each API server."),
        AGE,
    ),
    cells=_version_cells,
)
