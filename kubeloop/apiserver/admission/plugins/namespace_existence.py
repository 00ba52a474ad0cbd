# SPDX-License-Identifier: Apache-2.0
"""NamespaceExists and NamespaceAutoProvision: what becomes of a write into a missing namespace."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from kubeloop.api import errors
from kubeloop.api.kinds import Resource
from kubeloop.apiserver.admission import AdmissionPlugin, Attributes, Lookup, Operation


class NamespaceWriter(Protocol):
    """Creates namespaces on behalf of the server."""

    async def ensure_namespace(self, name: str) -> None:
        """Create a namespace and wait until it is durable; one that exists is left alone."""


class NamespaceExists(AdmissionPlugin):
    """Rejects creates, updates and deletes in a namespace that does not exist."""

    name = "NamespaceExists"
    operations = frozenset({"CREATE", "UPDATE", "DELETE"})

    def __init__(self, lookup: Lookup) -> None:
        self._find = lookup.get_object

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for every namespaced resource."""
        return operation in self.operations and resource.namespaced

    def validate(self, attempt: Attributes) -> None:
        """Reject the write unless its namespace exists."""
        if attempt.namespace and self._find("namespaces", "", attempt.namespace) is None:
            raise errors.not_found("", "namespaces", attempt.namespace)


class NamespaceAutoProvision(AdmissionPlugin):
    """Creates the missing namespace of a create request before any other plugin sees the request."""

    name = "NamespaceAutoProvision"

    def __init__(self, lookup: Lookup, writer: NamespaceWriter) -> None:
        self._find = lookup.get_object
        self._writer = writer

    def handles(self, operation: Operation, resource: Resource, subresource: str) -> bool:
        """Return True for creates of namespaced resources."""
        return operation == "CREATE" and resource.namespaced

    def admit(self, attempt: Attributes) -> Awaitable[None] | None:
        """Create the namespace if it is missing; a dry run creates none."""
        if attempt.dry_run or not attempt.namespace:
            return None
        if self._find("namespaces", "", attempt.namespace) is not None:
            return None
        return self._writer.ensure_namespace(attempt.namespace)
