# SPDX-License-Identifier: Apache-2.0
"""Complete controller with a custom resource: each Website becomes an owned Deployment, and has a status."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from kubeloop.operator import Controller, ControllerContext, CustomKind, CustomObject, ObjectKey, own_key, run
from kubeloop.types.apps_v1 import Deployment


class Spec(Struct, frozen=True, kw_only=True):
    image: Annotated[str, Meta(min_length=1)]
    replicas: Annotated[int, Meta(ge=0, le=10)] = 1


class Status(Struct, frozen=True, kw_only=True):
    ready: int = 0


class Website(CustomObject, frozen=True, kw_only=True):
    spec: Spec
    status: Status = Status()


WEBSITES = CustomKind(Website, "websites.example.com/v1", columns={"Ready": ".status.ready"})


def deployment_of(site: Website) -> dict[str, Any]:
    labels, owners = {"website": site.metadata.name}, [WEBSITES.owner_reference(site)]
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": site.spec.image}]}}
    spec = {"replicas": site.spec.replicas, "selector": {"matchLabels": labels}, "template": pod}
    meta = {"name": site.metadata.name, "namespace": site.metadata.namespace, "ownerReferences": owners}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def wire(context: ControllerContext) -> Controller[ObjectKey]:
    websites = context.informers.for_resource(context.declare_kind(WEBSITES))
    deployments = context.informers.for_resource(Deployment)

    async def reconcile(key: ObjectKey) -> None:
        if (found := websites.get(*key)) is not None:  # what a deleted one owned is the garbage collector's
            site = WEBSITES.read(found)
            made = await context.client.apply(deployment_of(site), manager="websites", force=True)
            if made.status.ready_replicas != site.status.ready:
                status = {"status": {"ready": made.status.ready_replicas}}
                await context.client.patch(Website, key.name, status, key.namespace, subresource="status")

    controller = Controller("websites", reconcile, context.clock, telemetry=context.telemetry)
    controller.watches(websites, own_key)
    controller.owns(deployments, WEBSITES.resource)
    return controller


if __name__ == "__main__":
    run(wire)
