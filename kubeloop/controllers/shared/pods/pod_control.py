"""Pods as workload loops make and remove them: from a template, with an event that tells of it on the owner."""

from __future__ import annotations

from typing import Any

from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.core_v1 import Pod, PodTemplateSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.name_rules import check_dns1123_subdomain, for_prefix
from kubeloop.client import Client
from kubeloop.controllers.shared.ownership.namespaces import is_terminating
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.objects.owner_references import controller_reference


def pod_from_template(
    template: PodTemplateSpec, owner: Any, resource: Resource, *, name: str = "", generate_name: str = ""
) -> Pod:
    """The pod that a template describes, managed by the owner, which is of this resource.

    Without a name the server makes one up, behind the owner's unless another beginning is given.
    """
    said, owned = template.metadata or ObjectMeta(), owner.metadata
    metadata = ObjectMeta(
        name=name,
        generate_name="" if name else generate_name or _prefix_of(owned.name),
        namespace=owned.namespace,
        labels=said.labels,
        annotations=said.annotations,
        finalizers=said.finalizers,
        owner_references=(controller_reference(owner, resource),),
    )
    return Pod(metadata=metadata, spec=template.spec)


def _prefix_of(name: str) -> str:
    """A dash behind the name makes it prettier, where there is room for one."""
    prefix = f"{name}-"
    return name if for_prefix(check_dns1123_subdomain, prefix) else prefix


class PodControl:
    """Creates and deletes pods for owners, and tells of it in the name of the recorder's component."""

    def __init__(self, client: Client, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder

    async def create(self, pod: Pod, owner: Any) -> Pod:
        """The pod as it was created. A refusal is told on the owner, unless the namespace is on its way out."""
        if not pod.metadata.labels:
            raise ValueError("unable to create pods, no labels")
        try:
            made: Pod = await self._client.create(pod)
        except ApiError as error:
            if not is_terminating(error):
                self._recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {error}")
            raise
        self._recorder.event(owner, "Normal", "SuccessfulCreate", f"Created pod: {made.metadata.name}")
        return made

    async def delete(self, pod: Pod, owner: Any) -> None:
        """Raises `NotFound` for a pod that is gone already, which is nothing to tell of."""
        name = pod.metadata.name
        try:
            await self._client.delete(Pod, name, pod.metadata.namespace)
        except NotFound:
            raise
        except ApiError as error:
            self._recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self._recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {name}")
