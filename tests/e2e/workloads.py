# SPDX-License-Identifier: Apache-2.0
"""Documents that the tests apply: small, but complete enough for every server."""

from __future__ import annotations

from typing import Any


def deployment(name: str, image: str = "nginx:1.27", replicas: int = 1) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "web", "image": image, "ports": [{"containerPort": 80}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "web", "image": "nginx:1.27"}]},
    }


def node(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
