# SPDX-License-Identifier: Apache-2.0
"""Calls of drivers: prepare and unprepare claims, and check that a response covers them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kubeloop.grpc.streams import RpcError
from kubeloop.kubelet.cm.dra.claim_info import ClaimInfo
from kubeloop.kubelet.cm.dra.messages import (
    DRAClaim,
    NodePrepareResourceResponse,
    NodePrepareResourcesRequest,
    NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest,
)
from kubeloop.kubelet.cm.dra.plugin import DRAPlugin


class DynamicResourceError(Exception):
    """Raised if claims cannot be prepared or unprepared now; the message is upstream's."""


async def prepare_claims(plugin: DRAPlugin, claims: Sequence[ClaimInfo]) -> Mapping[str, NodePrepareResourceResponse]:
    """Prepare claims; return the devices by UID. Raises `DynamicResourceError`."""
    request = NodePrepareResourcesRequest(claims=tuple(map(_reference, claims)))
    try:
        response = await plugin.node_prepare_resources(request)
    except RpcError as error:
        raise DynamicResourceError(f"NodePrepareResources: {error.format()}") from None
    _check_results("NodePrepareResources", claims, response.claims)
    return response.claims


async def unprepare_claims(plugin: DRAPlugin, claims: Sequence[ClaimInfo]) -> None:
    """Unprepare claims. Raises `DynamicResourceError`."""
    request = NodeUnprepareResourcesRequest(claims=tuple(map(_reference, claims)))
    try:
        response = await plugin.node_unprepare_resources(request)
    except RpcError as error:
        raise DynamicResourceError(f"NodeUnprepareResources: {error.format()}") from None
    _check_results("NodeUnprepareResources", claims, response.claims)


def _reference(info: ClaimInfo) -> DRAClaim:
    return DRAClaim(namespace=info.namespace, uid=info.claim_uid, name=info.claim_name)


def _check_results(
    method: str,
    claims: Sequence[ClaimInfo],
    results: Mapping[str, NodePrepareResourceResponse] | Mapping[str, NodeUnprepareResourceResponse],
) -> None:
    """Check that a driver's response has exactly the claims of the request, without errors."""
    names = {one.claim_uid: one.claim_name for one in claims}
    for uid, result in results.items():
        if uid not in names:
            raise DynamicResourceError(f"{method} returned result for unknown claim UID {uid}")
        if result.error:
            raise DynamicResourceError(f"{method} failed for ResourceClaim {names[uid]}: {result.error}")
    if missing := len(claims) - len(results):
        raise DynamicResourceError(f"{method} skipped {missing} ResourceClaims")
