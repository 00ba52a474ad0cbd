# SPDX-License-Identifier: Apache-2.0
"""A small operator for kopf: notes on each ConfigMap what it saw, and holds a deletion until it was let go."""

from __future__ import annotations

from typing import Any

import kopf

OURS = {"operated": "yes"}


@kopf.on.startup()  # type: ignore[arg-type, unused-ignore]  # kopf's own protocol is wider than ours
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = True
    settings.persistence.finalizer = "example.com/operator"


@kopf.on.create("v1", "configmaps", labels=OURS)
def created(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
    patch.metadata.annotations["example.com/created"] = body["data"]["colour"]
    kopf.info(body, reason="Seen", message="it is here")


@kopf.on.update("v1", "configmaps", labels=OURS, field="data.colour")
def updated(old: str, new: str, patch: kopf.Patch, **_: Any) -> None:
    patch.metadata.annotations["example.com/updated"] = f"{old} to {new}"


@kopf.on.delete("v1", "configmaps", labels=OURS)
def deleted(body: kopf.Body, **_: Any) -> None:
    if body["data"].get("hold") == "yes":
        raise kopf.TemporaryError("still held", delay=0.1)


@kopf.on.create("apps", "v1", "deployments", labels=OURS)
def scaled(patch: kopf.Patch, **_: Any) -> None:
    patch.spec["replicas"] = 7
