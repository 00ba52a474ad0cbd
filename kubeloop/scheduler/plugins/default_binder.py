"""DefaultBinder: tells the API server which node a pod has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubeloop.api.generated.core_v1 import Binding, ObjectReference
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.scheduler.framework.plugin import Plugin
from kubeloop.scheduler.framework.status import Refusal

if TYPE_CHECKING:
    from kubeloop.scheduler.cycle.scheduling_cycle import Cycle


class DefaultBinder(Plugin):
    """Writes a Binding, for this very pod and no namesake of it."""

    name = "DefaultBinder"

    async def bind(self, cycle: Cycle, node: str) -> Refusal | bool:
        name, namespace = cycle.pod.key.name, cycle.pod.key.namespace
        binding = Binding(
            metadata=ObjectMeta(name=name, namespace=namespace, uid=cycle.pod.uid),
            target=ObjectReference(kind="Node", name=node),
        )
        await self.handle.client.create_subresource("pods", name, "binding", binding, namespace)
        return True
