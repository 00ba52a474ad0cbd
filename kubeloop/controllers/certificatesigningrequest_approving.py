# SPDX-License-Identifier: Apache-2.0
"""Approves a kubelet's request for its own client certificate, if the requester is authorized.

A kubelet first requests as its bootstrap token's user, for any node, and later as its node, for itself. The required
permission is to create `certificatesigningrequests/nodeclient` and `.../selfnodeclient`.

Watches: certificate signing requests.
Owns: nothing.
Writes: the condition Approved, by the approval subresource; creates SubjectAccessReviews.
Wakes itself: while a request is valid but its requester not authorized, with growing delays.
Differs from upstream: nothing.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kubeloop.api.generated.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kubeloop.api.generated.certificates_v1 import CertificateSigningRequest
from kubeloop.client import Client
from kubeloop.client.discovery.rest_mapper import resource_of_class
from kubeloop.controllers.app.context import ControllerContext
from kubeloop.controllers.shared.certificates.approval import is_decided, preconditions_of, with_condition
from kubeloop.controllers.shared.certificates.rules import KUBELET_CLIENT, CsrFields, kubelet_client_problem
from kubeloop.runtime.controller import Controller, Result, TerminalError
from kubeloop.runtime.informer.informer import Informer
from kubeloop.runtime.objects.keys import ObjectKey
from kubeloop.runtime.objects.patch_or_update import PatchOrUpdate
from kubeloop.runtime.queue.enqueue import own_key
from kubeloop.runtime.queue.rate_limiters import (
    BucketRateLimiter,
    ItemExponentialFailureRateLimiter,
    MaxOfRateLimiter,
)
from kubeloop.runtime.queue.workqueue import WorkQueue

NAME: Final = "certificatesigningrequest-approving-controller"
QUEUE = "certificate"  # upstream's queue name, as dashboards know it
WORKERS = 5  # as upstream
FIRST_DELAY = 0.2  # as upstream, after a failure or a missing permission


class ApprovalPermission(NamedTuple):
    """Permission that lets requests be approved, as a subresource, and the message of the approval."""

    subresource: str
    message: str


FOR_ITSELF = ApprovalPermission(
    "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."
)
FOR_ANY_NODE = ApprovalPermission("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.")


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    """Build the controller and register its event handlers."""
    clock = context.clock
    requests = context.informers.for_resource(resource_of_class(CertificateSigningRequest))
    reconciler = Reconciler(context.client, requests)
    limiter = MaxOfRateLimiter[ObjectKey](
        ItemExponentialFailureRateLimiter[ObjectKey](FIRST_DELAY), BucketRateLimiter(clock)
    )
    queue: WorkQueue[ObjectKey] = WorkQueue(clock, name=QUEUE, limiter=limiter, registry=context.telemetry.registry)
    controller = Controller(
        NAME, reconciler.reconcile, clock, workers=WORKERS, queue=queue, telemetry=context.telemetry
    )  # fmt: skip
    controller.watches(requests, own_key)
    return controller


class Reconciler:
    """Approves requests by key."""

    def __init__(self, client: Client, requests: Informer) -> None:
        self._client = client
        self._writer = PatchOrUpdate(client)
        self._requests = requests
        self._waits: ItemExponentialFailureRateLimiter[ObjectKey] = ItemExponentialFailureRateLimiter(
            FIRST_DELAY
        )  # for missing permissions

    async def reconcile(self, key: ObjectKey) -> Result | None:
        """Approve the request if its requester has one of the permissions."""
        request: CertificateSigningRequest | None = self._requests.get(*key)
        if request is None or not is_kubelet_client_request(request):
            self._waits.forget(key)
            return None
        rights = required_permissions(request, _asked(request))
        for right in rights:
            if await self._may(request, right):
                await self._approve(request, right)
                return None
        return Result(requeue_after=self._waits.when(key)) if rights else None

    async def _may(self, request: CertificateSigningRequest, right: ApprovalPermission) -> bool:
        review: SubjectAccessReview = await self._client.create(review_of(request, right))
        return review.status.allowed

    async def _approve(self, request: CertificateSigningRequest, right: ApprovalPermission) -> None:
        conditions = with_condition(
            request, type="Approved", status="True", reason="AutoApproved", message=right.message
        )
        patch = {"metadata": preconditions_of(request), "status": {"conditions": conditions}}
        await self._writer.patch(self._requests.resource, request.metadata.name, patch, subresource="approval")


def is_kubelet_client_request(request: CertificateSigningRequest) -> bool:
    """Return True if this controller decides about the request."""
    return request.spec.signer_name == KUBELET_CLIENT and not request.status.certificate and not is_decided(request)


def required_permissions(request: CertificateSigningRequest, asked: CsrFields) -> list[ApprovalPermission]:
    """Return the permissions of which any suffices, the narrowest first."""
    if kubelet_client_problem(asked, request.spec.usages):
        return []
    return [FOR_ITSELF, FOR_ANY_NODE] if request.spec.username == asked.common_name else [FOR_ANY_NODE]


def review_of(request: CertificateSigningRequest, right: ApprovalPermission) -> SubjectAccessReview:
    """Build the SubjectAccessReview of the requester's permission."""
    spec = request.spec
    wanted = ResourceAttributes(
        group="certificates.k8s.io",
        resource="certificatesigningrequests",
        verb="create",
        subresource=right.subresource,
        version="*",
    )
    who = SubjectAccessReviewSpec(
        user=spec.username, uid=spec.uid, groups=spec.groups, extra=spec.extra, resource_attributes=wanted
    )
    return SubjectAccessReview(spec=who)


def _asked(request: CertificateSigningRequest) -> Any:
    from kubeloop.controllers.shared.certificates.csr import UnreadableRequest, parse_csr

    try:
        return parse_csr(request.spec.request)
    except UnreadableRequest as error:
        raise TerminalError(f'unable to parse csr "{request.metadata.name}": {error}') from None
