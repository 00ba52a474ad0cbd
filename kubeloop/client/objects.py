# SPDX-License-Identifier: Apache-2.0
"""Objects as calls need them: their address, their apply document, and bodies of subresources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubeloop.api import codec
from kubeloop.api.generated.meta_v1 import DeleteOptions
from kubeloop.api.kinds import Resource
from kubeloop.api.unstructured import body_document


def address_of(obj: Any) -> tuple[str, str]:
    """Return an object's namespace and name; empty if it has none."""
    if isinstance(obj, Mapping):
        metadata = obj.get("metadata") or {}
        return metadata.get("namespace") or "", metadata.get("name") or ""
    return obj.metadata.namespace, obj.metadata.name


def apply_document(obj: Any, resource: Resource) -> Any:
    """Return the document to apply: a mapping unchanged; a struct without nulls, empty status and managedFields.

    A struct writes null for lists that the API always shows, and apply would own these.
    """
    if isinstance(obj, Mapping):
        return body_document(obj)
    document = _without_nulls(codec.to_plain(obj))
    if not document.get("status"):
        document.pop("status", None)
    document["metadata"].pop("managedFields", None)
    return {"apiVersion": resource.group_version, "kind": resource.kind, **document}


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value


def eviction(pod: str, namespace: str, options: DeleteOptions | None) -> Any:
    """Return the Eviction of a pod."""
    from kubeloop.api.generated.meta_v1 import ObjectMeta
    from kubeloop.api.generated.policy_v1 import Eviction

    return Eviction(metadata=ObjectMeta(name=pod, namespace=namespace), delete_options=options)


def pod_binding(pod: str, namespace: str, node: str) -> Any:
    """Return the Binding of a pod to a node."""
    from kubeloop.api.generated.core_v1 import Binding, ObjectReference
    from kubeloop.api.generated.meta_v1 import ObjectMeta

    return Binding(
        metadata=ObjectMeta(name=pod, namespace=namespace),
        target=ObjectReference(api_version="v1", kind="Node", name=node),
    )


def token_request(audiences: tuple[str, ...], seconds: int | None) -> Any:
    """Return a TokenRequest."""
    from kubeloop.api.generated.authentication_v1 import TokenRequest, TokenRequestSpec

    return TokenRequest(spec=TokenRequestSpec(audiences=audiences, expiration_seconds=seconds))
