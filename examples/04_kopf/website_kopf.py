# SPDX-License-Identifier: Apache-2.0
"""The same controller under kopf, against any API server: each Website becomes an owned Deployment.

Run it: kopf run --standalone --namespace default website_kopf.py
The definition of websites has to be there: `kubectl apply -f website_crd.yaml`.
"""

from typing import Any

import kopf
import kubernetes

kubernetes.config.load_config()


@kopf.on.create("example.com", "v1", "websites")
@kopf.on.update("example.com", "v1", "websites", field="spec")
def deploy(name: str, namespace: str, spec: kopf.Spec, body: kopf.Body, **_: Any) -> dict[str, str]:
    labels = {"website": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": spec["image"]}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": spec["replicas"], "selector": {"matchLabels": labels}, "template": pod},
    }
    kopf.adopt(deployment, owner=body)
    apps = kubernetes.client.AppsV1Api()
    try:
        apps.create_namespaced_deployment(namespace, deployment)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
        apps.patch_namespaced_deployment(name, namespace, deployment)
    return {"deployment": name}


@kopf.on.field("apps", "v1", "deployments", labels={"website": kopf.PRESENT}, field="status.readyReplicas")
def report(new: int | None, name: str, namespace: str, **_: Any) -> None:
    objects = kubernetes.client.CustomObjectsApi()
    status = {"status": {"ready": new or 0}}
    objects.patch_namespaced_custom_object_status("example.com", "v1", namespace, "websites", name, status)
