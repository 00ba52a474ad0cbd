# SPDX-License-Identifier: Apache-2.0
"""NodeRestriction: a kubelet may write only its own node's objects, and for pods that run there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import msgspec

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.field_path import quote
from kubeloop.api.pods.references import MIRROR_ANNOTATION
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup, Operation
from kubeloop.apiserver.admission.plugins.node.labels import forbidden_labels
from kubeloop.apiserver.admission.plugins.node.mirror_pods import validate_mirror_pod
from kubeloop.apiserver.admission.plugins.node.tokens import has_mounted_audience, has_mounted_signer
from kubeloop.apiserver.authorization import UnionAuthorizer
from kubeloop.apiserver.authorization.attributes import AuthorizationAttributes
from kubeloop.apiserver.authorization.node import node_of

_LEASES = "kube-node-lease"
_KUBELET_SIGNERS = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")


class NodeRestriction(AdmissionPlugin):
    """Restricts writes of kubelets, by a rule per resource."""

    name = "NodeRestriction"
    ignores_renewals = True

    def __init__(self, lookup: Lookup, authorizer: UnionAuthorizer) -> None:
        self._find = lookup.get_object
        self._lookup = lookup
        self._authorizer = authorizer
        self._rules: dict[str, Callable[[Attributes, str], Awaitable[None] | None]] = {
            "pods": self._pod,
            "nodes": self._node,
            "persistentvolumeclaims": self._claim,
            "serviceaccounts": self._token,
            "podcertificaterequests.certificates.k8s.io": self._pod_certificate,
            "leases.coordination.k8s.io": self._lease,
            "csinodes.storage.k8s.io": self._csi_node,
            "resourceslices.resource.k8s.io": self._resource_slice,
            "certificatesigningrequests.certificates.k8s.io": self._signing_request,
        }

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for all writes of resources that have a rule."""
        return operation != "CONNECT" and resource.group_resource in self._rules

    def admit(self, attempt: Attributes) -> Awaitable[None] | None:
        """Apply the resource's rule if the user is a node."""
        node = node_of(attempt.user)
        if node is None:
            return None
        if not node:
            raise attempt.forbidden(f"could not determine node from user {quote(attempt.user.name)}")
        return self._rules[attempt.resource.group_resource](attempt, node)

    # -- pods -------------------------------------------------------------------------------------------------------

    def _pod(self, attempt: Attributes, node: str) -> None:
        if attempt.subresource == "status":
            self._pod_status(attempt, node)
        elif attempt.subresource == "eviction":
            if self._pod_named(attempt, attempt.name).spec.node_name != node:
                raise attempt.forbidden(f"node {node} can only evict pods with spec.nodeName set to itself")
        elif attempt.subresource:
            told = f"unexpected pod subresource {quote(attempt.subresource)}, only 'status' and 'eviction' are allowed"
            raise attempt.forbidden(told)
        elif attempt.operation == "CREATE":
            validate_mirror_pod(attempt, node, self._lookup)
        elif attempt.operation == "DELETE":
            if attempt.old_obj is None or attempt.old_obj.spec.node_name != node:
                told = f"node {quote(node)} can only delete pods with spec.nodeName set to itself"
                raise attempt.forbidden(told)
        else:
            told = f"unexpected operation {quote(attempt.operation)}, node {quote(node)} can only create and delete "
            raise attempt.forbidden(told + "mirror pods")

    def _pod_status(self, attempt: Attributes, node: str) -> None:
        if attempt.operation != "UPDATE":
            _unexpected(attempt)
        old: Any = attempt.old_obj
        new: Any = attempt.obj
        if old.spec.node_name != node:
            told = f"node {quote(node)} can only update pod status for pods with spec.nodeName set to itself"
            raise attempt.forbidden(told)
        if old.metadata.labels != new.metadata.labels:
            raise attempt.forbidden(f"node {quote(node)} cannot update labels through pod status")
        for attribute, what in (
            ("resource_claim_statuses", "resource claim statues"),
            ("extended_resource_claim_status", "extended resource claim status"),
            ("node_allocatable_resource_claim_statuses", "node allocatable resource claim statuses"),
        ):
            if getattr(old.status, attribute, None) != getattr(new.status, attribute, None):
                raise attempt.forbidden(f"node {quote(node)} cannot update {what}")

    def _pod_named(self, attempt: Attributes, name: str) -> Any:
        pod = self._find("pods", attempt.namespace, name)
        if pod is None:
            raise errors.not_found("", "pods", name)
        return pod

    # -- the node's own objects --------------------------------------------------------------------------------------

    def _node(self, attempt: Attributes, node: str) -> None:
        if attempt.name != node:
            raise attempt.forbidden(f"node {quote(node)} is not allowed to modify node {quote(attempt.name)}")
        new, old = attempt.obj, attempt.old_obj
        if new is None or attempt.operation == "DELETE":
            return
        before = old.metadata.labels if old is not None else {}
        listed = ", ".join(forbidden_labels(new.metadata.labels, before))
        if old is None:
            if new.spec.config_source is not None:
                told = f"node {quote(node)} is not allowed to create pods with a non-nil configSource"
                raise attempt.forbidden(told)
            if listed:
                raise attempt.forbidden(f"node {quote(node)} is not allowed to set the following labels: {listed}")
            return
        if new.spec.config_source is not None and new.spec.config_source != old.spec.config_source:
            told = f"node {quote(node)} is not allowed to update configSource to a new non-nil configSource"
            raise attempt.forbidden(told)
        if new.spec.taints != old.spec.taints:
            raise attempt.forbidden(f"node {quote(node)} is not allowed to modify taints")
        if new.metadata.owner_references != old.metadata.owner_references:
            raise attempt.forbidden(f"node {quote(node)} is not allowed to modify ownerReferences")
        if listed:
            raise attempt.forbidden(f"is not allowed to modify labels: {listed}")

    def _lease(self, attempt: Attributes, node: str) -> None:
        if attempt.namespace != _LEASES:
            raise attempt.forbidden(f"can only access leases in the {quote(_LEASES)} system namespace")
        if attempt.name != node:
            raise attempt.forbidden("can only access node lease with the same name as the requesting node")

    def _csi_node(self, attempt: Attributes, node: str) -> None:
        if attempt.name != node:
            raise attempt.forbidden("can only access CSINode with the same name as the requesting node")

    def _resource_slice(self, attempt: Attributes, node: str) -> None:
        if attempt.operation == "UPDATE":
            return  # the authorizer has checked the stored one, and its node is immutable
        told = "create" if attempt.operation == "CREATE" else "delete"
        found = attempt.obj if attempt.operation == "CREATE" else attempt.old_obj
        if found is None or found.spec.node_name != node:
            raise attempt.forbidden(f"can only {told} ResourceSlice with the same NodeName as the requesting node")

    # -- objects of pods ---------------------------------------------------------------------------------------------

    def _claim(self, attempt: Attributes, node: str) -> None:
        if attempt.subresource != "status":
            raise attempt.forbidden("may only update PVC status")
        if attempt.operation != "UPDATE":
            _unexpected(attempt)
        if _without_node_reported_status(attempt.old_obj) != _without_node_reported_status(attempt.obj):
            told = (
                f"node {quote(node)} is not allowed to update fields other than status.quantity and status.conditions"
            )
            raise attempt.forbidden(told)

    def _token(self, attempt: Attributes, node: str) -> Awaitable[None] | None:
        if attempt.operation != "CREATE" or attempt.subresource != "token":
            return None
        spec = attempt.obj.spec  # type: ignore[union-attr]  # a POST has an object
        bound = spec.bound_object_ref
        if bound is None or bound.api_version != "v1" or bound.kind != "Pod" or not bound.name:
            raise attempt.forbidden("node requested token not bound to a pod")
        if not bound.uid:
            raise attempt.forbidden("node requested token with a pod binding without a uid")
        pod = self._pod_named(attempt, bound.name)
        if pod.metadata.uid != bound.uid:
            raise attempt.forbidden(
                f"the UID in the bound object reference ({bound.uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
        if pod.spec.node_name != node:
            raise attempt.forbidden("node requested token bound to a pod scheduled on a different node")
        return self._check_audience(attempt, pod, spec.audiences or ())

    def _check_audience(self, attempt: Attributes, pod: Any, audiences: tuple[str, ...]) -> Awaitable[None] | None:
        if len(audiences) > 1:
            raise attempt.forbidden("node may only request 0 or 1 audiences")
        audience = audiences[0] if audiences else ""
        if has_mounted_audience(pod, audience, self._lookup):
            return None
        told = f"{attempt.user.name} is not authorized to request tokens for audience {quote(audience)}"
        return self._require(attempt, "request-serviceaccounts-token-audience", audience, attempt.name, told)

    async def _require(self, attempt: Attributes, verb: str, resource: str, name: str, told: str) -> None:
        """Reject the write unless the node has a permission."""
        kind = attempt.resource
        asked = AuthorizationAttributes(
            attempt.user, verb, kind.group, kind.version, resource, namespace=attempt.namespace, name=name
        )
        if not (await self._authorizer.wait_decision(asked)).allowed:
            raise attempt.forbidden(told)

    # -- certificates -----------------------------------------------------------------------------------------------

    def _pod_certificate(self, attempt: Attributes, node: str) -> Awaitable[None] | None:
        if attempt.operation != "CREATE":
            raise attempt.forbidden(f"unexpected operation {attempt.operation}")
        if attempt.subresource:
            raise attempt.forbidden(f"unexpected subresource {attempt.subresource}")
        spec = attempt.obj.spec  # type: ignore[union-attr]  # a POST has an object
        if spec.node_name != node:
            told = f"PodCertificateRequest.Spec.NodeName={quote(spec.node_name)}, which is not the requesting node "
            raise attempt.forbidden(told + quote(node))
        pod = self._pod_named(attempt, spec.pod_name)
        where = quote(f"{attempt.namespace}/{spec.pod_name}")
        if pod.metadata.uid != spec.pod_uid:
            raise errors.internal_error(
                f"PodCertificateRequest for pod {where} contains pod UID ({quote(spec.pod_uid)}) "
                f"which differs from running pod {quote(pod.metadata.uid)}"
            )
        if pod.spec.node_name != node:
            told = f"pod {where} is not running on node {quote(node)} named in the PodCertificateRequest"
            raise attempt.forbidden(told)
        if MIRROR_ANNOTATION in pod.metadata.annotations:
            raise attempt.forbidden(f"pod {where} is a mirror pod")
        if spec.service_account_name != pod.spec.service_account_name:
            raise attempt.forbidden(
                f"PodCertificateRequest for pod {where} contains serviceAccountName "
                f"({quote(spec.service_account_name)}) that differs from running pod "
                f"({quote(pod.spec.service_account_name)})"
            )
        if has_mounted_signer(pod, spec.signer_name):
            return None
        signer = spec.signer_name.replace("/", ":")
        verb = "request-serviceaccounts-podcertificate-signer"
        told = f"pod {where} does not mount a podCertificate projected volume for signer {quote(spec.signer_name)}"
        return self._require(attempt, verb, signer, spec.service_account_name, told)

    def _signing_request(self, attempt: Attributes, node: str) -> None:
        if attempt.operation != "CREATE" or attempt.obj is None:
            return
        if attempt.obj.spec.signer_name not in _KUBELET_SIGNERS:
            return
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        try:
            subject = x509.load_pem_x509_csr(attempt.obj.spec.request or b"").subject
        except ValueError as error:
            raise attempt.forbidden(f"unable to parse csr: {error}") from None
        names = [str(one.value) for one in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        if names[-1:] != [f"system:node:{node}"]:
            raise attempt.forbidden(f"can only create a node CSR with CN=system:node:{node}")


def _unexpected(attempt: Attributes) -> NoReturn:
    raise attempt.forbidden(f"unexpected operation {quote(attempt.operation)}")


def _without_node_reported_status(claim: Any) -> Any:
    replace = msgspec.structs.replace
    status = replace(claim.status, capacity={}, conditions=(), allocated_resource_statuses={}, allocated_resources={})
    return replace(claim, status=status, metadata=replace(claim.metadata, resource_version="", managed_fields=()))
