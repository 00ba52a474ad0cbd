# SPDX-License-Identifier: Apache-2.0
"""Custom kind that tests define while controllers run."""

from __future__ import annotations

from typing import Any

from kubeloop.testing import Cluster


def define(cluster: Cluster, plural: str = "widgets", kind: str = "Widget", *, scope: str = "Namespaced") -> None:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    cluster.client.create(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.example.com"},
            "spec": {
                "group": "example.com",
                "scope": scope,
                "names": {"plural": plural, "kind": kind},
                "versions": [version],
            },
        }
    )
    cluster.settle()


def widget(name: str, namespace: str = "default", *owners: dict[str, Any], kind: str = "Widget") -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": "example.com/v1",
        "kind": kind,
        "metadata": {"name": name, **where, "ownerReferences": list(owners)},
    }


def named(owner: Any, *, block: bool = False) -> dict[str, Any]:
    """A reference to any object, as plain data."""
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "blockOwnerDeletion": block,
    }
