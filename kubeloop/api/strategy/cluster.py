# SPDX-License-Identifier: Apache-2.0
"""Strategies of namespaces, nodes, service accounts, limit ranges and leases."""

from __future__ import annotations

from kubeloop.api.codec import force_setattr
from kubeloop.api.features.gates import Features
from kubeloop.api.generated.coordination_v1 import Lease
from kubeloop.api.generated.core_v1 import LimitRange, Namespace, Node, ObjectReference, ServiceAccount
from kubeloop.api.strategy.base import RESETS_SPEC, Strategy

_FINALIZER = "kubernetes"
_NAME_LABEL = "kubernetes.io/metadata.name"


def _refine_namespace(new: Namespace, old: Namespace | None) -> None:
    """Restore spec.finalizers, which only the finalize subresource may change; a new namespace is Active."""
    if old is not None:
        force_setattr(new.spec, "finalizers", old.spec.finalizers)
        return
    force_setattr(new.status, "phase", "Active")
    if _FINALIZER not in new.spec.finalizers:
        force_setattr(new.spec, "finalizers", (*new.spec.finalizers, _FINALIZER))
    name = new.metadata.name
    if name and new.metadata.labels.get(_NAME_LABEL) != name:
        # Defaulting has done this, except for a name that was generated since.
        force_setattr(new.metadata, "labels", {**new.metadata.labels, _NAME_LABEL: name})


def _finalize_namespace(new: Namespace, old: Namespace, features: Features) -> None:
    force_setattr(new, "status", old.status)
    force_setattr(new.metadata, "generation", old.metadata.generation)


def _refine_node(new: Node, old: Node | None) -> None:
    """Restore the status on update; creation keeps it without config, since nodes register with a status.

    Drops the deprecated config source and a disabled field, unless the old object has them.
    """
    if old is None:
        force_setattr(new.status, "config", None)
    else:
        force_setattr(new, "status", old.status)
    if old is None or old.spec.config_source is None:
        force_setattr(new.spec, "config_source", None)
    if old is None or old.spec.pod_preemption_policy is None:
        force_setattr(new.spec, "pod_preemption_policy", None)


def _refine_node_status(new: Node, old: Node) -> None:
    if old.status.config is None:
        force_setattr(new.status, "config", None)


def _refine_service_account(new: ServiceAccount, old: ServiceAccount | None) -> None:
    """Reduce references to secrets to their names."""
    if new.secrets:
        force_setattr(new, "secrets", tuple(ObjectReference(name=secret.name) for secret in new.secrets))


def _refine_limit_range(new: LimitRange, old: LimitRange | None) -> None:
    """Name a LimitRange that has no name by a UUID."""
    if not new.metadata.name:
        force_setattr(new.metadata, "name", new.metadata.uid)


def _refine_lease(new: Lease, old: Lease | None) -> None:
    """Drop the fields of coordinated leader election, which is disabled."""
    for name in ("strategy", "preferred_holder"):
        if getattr(new.spec, name) is not None and (old is None or getattr(old.spec, name) is None):
            force_setattr(new.spec, name, None)


NAMESPACE = Strategy(
    has_status=True,
    reset_fields={**RESETS_SPEC, "finalize": (("status",),)},
    refine=_refine_namespace,
    subresource_updates={"finalize": _finalize_namespace},
)
NODE = Strategy(reset_fields=RESETS_SPEC, refine=_refine_node, refine_status=_refine_node_status)
SERVICE_ACCOUNT = Strategy(refine=_refine_service_account)
LIMIT_RANGE = Strategy(allow_create_on_update=True, refine=_refine_limit_range)
LEASE = Strategy(allow_create_on_update=True, allow_unconditional_update=False, refine=_refine_lease)
