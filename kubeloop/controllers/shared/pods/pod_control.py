# SPDX-License-Identifier: Apache-2.0
"""Creates pods from a template and deletes them, with events on the owner."""

from __future__ import annotations

from typing import Any

from kubeloop.api.errors import ApiError, NotFound
from kubeloop.api.generated.core_v1 import Pod, PodTemplateSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.name_rules import check_dns1123_subdomain, check_generate_name
from kubeloop.client import Client
from kubeloop.controllers.shared.ownership.namespaces import is_terminating
from kubeloop.runtime.events.recorder import EventRecorder
from kubeloop.runtime.objects.owner_references import controller_reference


def pod_from_template(
    template: PodTemplateSpec, owner: Any, resource: Resource, *, name: str = "", generate_name: str = ""
) -> Pod:
    """Build the pod of a template, controlled by the owner, which is of this resource.

    Without a name the server generates one, from `generate_name` or else from the owner's name.
    """
    said, owned = template.metadata, owner.metadata
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
    """Return the name with a trailing dash, if the result is still a valid prefix."""
    prefix = f"{name}-"
    return name if check_generate_name(check_dns1123_subdomain, prefix) else prefix


class PodControl:
    """Creates and deletes pods for owners, and records events under the recorder's component."""

    def __init__(self, client: Client, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder

    async def create(self, pod: Pod, owner: Any) -> Pod:
        """Create the pod and return it. A failure is recorded on the owner, unless the namespace is terminating."""
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
        """Delete the pod. Raises `NotFound`, without an event, if it is already gone."""
        name = pod.metadata.name
        try:
            await self._client.delete(Pod, name, pod.metadata.namespace)
        except NotFound:
            raise
        except ApiError as error:
            self._recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error}")
            raise
        self._recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted pod: {name}")
