"""What loops that furnish namespaces have to know of them."""

from __future__ import annotations

from kubeloop.api.errors import ApiError
from kubeloop.api.generated.core_v1 import Namespace


def is_active(namespace: Namespace | None) -> bool:
    """Whether there is a namespace in which something can be made."""
    return namespace is not None and namespace.status.phase == "Active"


def is_terminating(error: ApiError) -> bool:
    """Whether the server refused because the namespace is being deleted: nothing to try again."""
    return error.is_for_namespace_that_goes
