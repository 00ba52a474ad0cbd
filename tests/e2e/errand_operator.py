# SPDX-License-Identifier: Apache-2.0
"""Small kopf operator: runs the steps of an Errand whose predecessors are done."""

from __future__ import annotations

from typing import Any

import kopf


@kopf.on.create("errands.example.org", "v1", "errands")
def run(spec: kopf.Spec, status: kopf.Status, patch: kopf.Patch, **_: Any) -> None:
    nodes = dict(status.get("nodes", {}))
    ready = [
        one["name"] for one in spec["steps"] if one["name"] not in nodes and set(one.get("after", [])) <= set(nodes)
    ]
    nodes |= {name: {"phase": "Succeeded"} for name in ready}
    patch.status["nodes"] = nodes
    patch.status["done"] = len(nodes)
    if len(nodes) < len(spec["steps"]):
        patch.status["phase"] = "Running"
        raise kopf.TemporaryError("steps are left", delay=0.1)
    patch.status["phase"] = "Succeeded"
