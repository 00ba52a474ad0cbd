# SPDX-License-Identifier: Apache-2.0
"""Merges tolerations, without those that another one covers, and compares them with a whitelist."""

from __future__ import annotations

from kubeloop.api.generated.core_v1 import Toleration

Tolerations = tuple[Toleration, ...]


def merge_tolerations(first: Tolerations, second: Tolerations) -> Tolerations:
    """Return both lists in order, without redundant tolerations; among equal ones the first stays."""
    everything = first + second
    merged: list[Toleration] = []
    for index, toleration in enumerate(everything):
        if any(_includes(kept, toleration) for kept in merged):
            continue
        if any(later != toleration and _includes(later, toleration) for later in everything[index + 1 :]):
            continue
        merged.append(toleration)
    return tuple(merged)


def is_whitelisted(tolerations: Tolerations, whitelist: Tolerations) -> bool:
    """Return True if an entry of the whitelist covers each toleration; an empty whitelist allows all."""
    return not whitelist or all(any(_includes(entry, one) for entry in whitelist) for one in tolerations)


def _includes(wide: Toleration, narrow: Toleration) -> bool:
    """Return True if `wide` tolerates everything that `narrow` does, for at least as long."""
    if wide == narrow:
        return True
    if narrow.key != wide.key and not (wide.key == "" and wide.operator == "Exists"):
        return False
    if wide.effect not in ("", narrow.effect):
        return False
    if wide.effect == "NoExecute" and wide.toleration_seconds is not None:
        seconds = narrow.toleration_seconds
        if seconds is None or seconds > wide.toleration_seconds:
            return False
    if wide.operator in ("", "Equal"):
        return narrow.operator == "Equal" and narrow.value == wide.value
    return wide.operator == "Exists"
