# SPDX-License-Identifier: Apache-2.0
"""Strategies of FlowSchemas and PriorityLevelConfigurations: a status update keeps the stored metadata."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kubeloop.api.codec import force_setattr
from kubeloop.api.strategy.base import RESETS_METADATA, Strategy


def _keep_metadata(new: Any, old: Any) -> None:
    force_setattr(new, "metadata", replace(old.metadata, managed_fields=new.metadata.managed_fields))


FLOW_CONTROL = Strategy(
    has_status=True, generation_of=("spec",), reset_fields=RESETS_METADATA, refine_status=_keep_metadata
)
