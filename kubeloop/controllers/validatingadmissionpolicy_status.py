"""A validating admission policy says up to which of its generations it has been looked at.

Watches: validating admission policies.
Owns: nothing.
Writes: policies' status, by server-side apply.
Wakes itself: never.
Differs from upstream: expressions are not checked against the types of what they are about yet, so that no warnings
    about them appear.
"""

from __future__ import annotations

from typing import Any, Final

from kubeloop.api.generated.admissionregistration_v1 import ValidatingAdmissionPolicy
from kubeloop.client import Client
from kubeloop.client.resolving import resource_of_class
from kubeloop.controllers.context import Context
from kubeloop.runtime.controller import Controller
from kubeloop.runtime.informer import Informer
from kubeloop.runtime.workqueue import WorkQueue

NAME: Final = "validatingadmissionpolicy-status-controller"
MANAGER: Final = "validatingadmissionpolicy-status"  # upstream's name for the queue and for the owner of the fields


def wire(context: Context) -> Controller[str]:
    policies = context.informers.of(resource_of_class(ValidatingAdmissionPolicy))
    reconciler = Reconciler(context.client, policies)
    queue: WorkQueue[str] = WorkQueue(context.clock, name=MANAGER, registry=context.telemetry.registry)
    workers = context.config.concurrent_validating_admission_policy_status_syncs
    controller = Controller(
        NAME, reconciler.reconcile, context.clock, workers=workers, queue=queue, telemetry=context.telemetry
    )
    controller.watches(policies, lambda policy: (policy.metadata.name,), _is_unseen)
    return controller


class Reconciler:
    def __init__(self, client: Client, policies: Informer) -> None:
        self._client = client
        self._policies = policies

    async def reconcile(self, key: str) -> None:
        policy: ValidatingAdmissionPolicy | None = self._policies.get("", key)
        if policy is None or not is_unseen(policy):
            return
        status = {"observedGeneration": policy.metadata.generation, "typeChecking": {}}
        applied = {
            "apiVersion": policy.api_version,
            "kind": policy.kind,
            "metadata": {"name": key},
            "status": status,
        }
        await self._client.apply(applied, manager=MANAGER, force=True, subresource="status")


def is_unseen(policy: ValidatingAdmissionPolicy) -> bool:
    return policy.metadata.generation > policy.status.observed_generation


def _is_unseen(_: Any, new: Any) -> bool:
    return new is not None and is_unseen(new)
