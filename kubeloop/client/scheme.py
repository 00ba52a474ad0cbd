# SPDX-License-Identifier: Apache-2.0
"""Scheme: the classes of custom kinds that a client knows (upstream: `runtime.Scheme`).

typed object ── encode ──▶ mapping ──▶ call ──▶ mapping ── decode ──▶ typed object
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from kubeloop.api.kinds import Resource
from kubeloop.api.requests import ListResult, WatchEvent
from kubeloop.api.unstructured import Unstructured
from kubeloop.client.discovery.rest_mapper import find_resource_of_class
from kubeloop.client.errors import UsageError


class TypedKind(Protocol):
    """Custom kind whose objects have a class; implemented by `CustomKind`."""

    @property
    def type(self) -> type[Any]:
        """Class of the objects."""

    @property
    def resource(self) -> Resource:
        """Resource of the kind."""

    def read(self, found: Mapping[str, Any]) -> Any:
        """Convert an object of a response to a typed one."""

    def write(self, obj: Any) -> Unstructured:
        """Convert a typed object to the form of requests."""


class Scheme:
    """Custom kinds by the class of their objects."""

    def __init__(self) -> None:
        self._kinds: dict[object, TypedKind] = {}

    @property
    def kinds(self) -> tuple[TypedKind, ...]:
        """All kinds."""
        return tuple(self._kinds.values())

    def add(self, kind: TypedKind) -> None:
        """Add a kind; a kind of the same class is replaced."""
        self._kinds[kind.type] = kind

    def resource_of(self, cls: type) -> Resource:
        """Return the resource whose objects are of a class, built in or added; raises `UsageError`."""
        kind = self._kinds.get(cls)
        found = kind.resource if kind is not None else find_resource_of_class(cls)
        if found is None:
            raise UsageError(
                f"{cls.__name__} is not the class of a resource that the client knows; if it is the class of a "
                "CustomKind, add the kind: context.declare_kind(kind) in a controller, cluster.define(kind) in a test, "
                "client.add_kind(kind) elsewhere"
            )
        return found

    def encode(self, obj: Any) -> Any:
        """Return a typed custom object as a mapping, and other objects unchanged."""
        kind = self._kinds.get(type(obj))
        return obj if kind is None else kind.write(obj)

    def decode(self, what: object, answer: Any) -> Any:
        """Return an answer with typed objects if `what` is the class of a custom kind."""
        kind = self._kinds.get(what) if isinstance(what, type) else None
        if kind is None:
            return answer
        if isinstance(answer, ListResult):
            return msgspec.structs.replace(answer, items=tuple(_read(kind, one) for one in answer.items))
        return _read(kind, answer)

    def decode_events(self, what: object, batch: Sequence[WatchEvent]) -> Sequence[WatchEvent]:
        """Return watch events with typed objects if `what` is the class of a custom kind."""
        if not isinstance(what, type) or what not in self._kinds:
            return batch
        return [msgspec.structs.replace(one, object=self.decode(what, one.object)) for one in batch]


def _read(kind: TypedKind, obj: Any) -> Any:
    """Convert an object; metadata alone, and objects of subresources of other kinds, stay as they are."""
    return kind.read(obj) if isinstance(obj, Unstructured) and obj.kind == kind.resource.kind else obj
