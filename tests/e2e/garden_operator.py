# SPDX-License-Identifier: Apache-2.0
"""Small kopf operator: creates the plants of a Garden, and reports their number in its status."""

from __future__ import annotations

from typing import Any

import kopf

GROUP = ("gardening.example.com", "v1", "gardens")


@kopf.on.create(*GROUP)
@kopf.on.update(*GROUP, field="spec")
def plant(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    patch.status["growing"] = sum(bed["plants"] for bed in spec.get("beds", []))
    patch.status["phase"] = "Planted"


@kopf.on.delete(*GROUP)
def clear(patch: kopf.Patch, spec: kopf.Spec, **_: Any) -> None:
    if spec.get("frozen"):
        raise kopf.TemporaryError("the ground is frozen", delay=0.1)
