# SPDX-License-Identifier: Apache-2.0
"""NamespaceLifecycle: rejects creates in missing or terminating namespaces, and deletes of system namespaces."""

from __future__ import annotations

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup, Operation

_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
# Its response must not reveal that a namespace exists.
_ACCESS_REVIEW = "localsubjectaccessreviews.authorization.k8s.io"


class NamespaceLifecycle(AdmissionPlugin):
    """Guards the lifecycle of namespaces."""

    name = "NamespaceLifecycle"

    def __init__(self, lookup: Lookup) -> None:
        self._find = lookup.get_object

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for deletes of namespaces and creates in namespaces."""
        if resource.group_resource == "namespaces":
            return operation == "DELETE"
        return operation == "CREATE" and resource.namespaced and resource.group_resource != _ACCESS_REVIEW

    def admit(self, attempt: Attributes) -> None:
        """Reject the deletion of an immortal namespace, or a create without an active namespace."""
        if attempt.operation == "DELETE":
            self._keep_immortal(attempt)
        elif attempt.namespace:
            self._require_active(attempt)

    def _keep_immortal(self, attempt: Attributes) -> None:
        if attempt.name in _IMMORTAL:
            raise errors.forbidden("", "namespaces", attempt.name, "this namespace may not be deleted")

    def _require_active(self, attempt: Attributes) -> None:
        namespace = attempt.namespace
        found = self._find("namespaces", "", namespace)
        if found is None:
            raise errors.not_found("", "namespaces", namespace)
        if found.status.phase == "Terminating":
            raise attempt.forbidden(
                f"unable to create new content in namespace {namespace} because it is being terminated",
                (
                    errors.StatusCause(
                        "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
                    ),
                ),
            )
