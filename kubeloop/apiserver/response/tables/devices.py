# SPDX-License-Identifier: Apache-2.0
"""Printers of dynamic resource allocation: claims, slices, taint rules."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from kubeloop.apiserver.response.tables.model import AGE, NAME, Cells, Printer, column
from kubeloop.apiserver.response.tables.text import format_age, format_age_since

if TYPE_CHECKING:
    from kubeloop.api.generated.resource_v1 import DeviceTaintRule, ResourceClaim, ResourceSlice


def _claim_state(claim: ResourceClaim) -> str:
    deleted = ["deleted"] if claim.metadata.deletion_timestamp else []
    if claim.status.allocation is None:
        return ",".join(deleted or ["pending"])
    return ",".join([*deleted, "allocated", *(["reserved"] if claim.status.reserved_for else [])])


def _claim_cells(claim: ResourceClaim, now: datetime) -> Cells:
    return [claim.metadata.name, _claim_state(claim), format_age(claim, now)]


def _slice_cells(resource_slice: ResourceSlice, now: datetime) -> Cells:
    spec = resource_slice.spec
    return [
        resource_slice.metadata.name,
        spec.node_name or "",
        spec.driver,
        spec.pool.name,
        format_age(resource_slice, now),
    ]


def _taint_rule_cells(rule: DeviceTaintRule, now: datetime) -> Cells:
    taint = rule.spec.taint
    return [
        rule.metadata.name,
        taint.key,
        taint.value,
        taint.effect,
        format_age_since(taint.time_added, now) if taint.time_added else "",
        format_age(rule, now),
    ]


RESOURCE_CLAIM = Printer(
    columns=(NAME, column("State", "State: pending, allocated, reserved or deleted."), AGE), cells=_claim_cells
)
RESOURCE_SLICE = Printer(
    columns=(
        NAME,
        column("Node", "Node of the devices."),
        column("Driver", "Driver of the devices."),
        column("Pool", "Pool of the devices."),
        AGE,
    ),
    cells=_slice_cells,
)
DEVICE_TAINT_RULE = Printer(
    columns=(
        NAME,
        column("Key", "Taint key."),
        column("Value", "Taint value."),
        column("Effect", "Taint effect."),
        column("TimeAdded", "Time since the taint was added."),
        AGE,
    ),
    cells=_taint_rule_cells,
)
