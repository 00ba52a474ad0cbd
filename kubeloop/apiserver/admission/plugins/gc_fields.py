# SPDX-License-Identifier: Apache-2.0
"""Recognizes updates that change only metadata of the garbage collector."""

from __future__ import annotations

import msgspec

from kubeloop.apiserver.admission import Attributes


def is_only_gc_update(attempt: Attributes) -> bool:
    """Return True if only finalizers and owner references change, as by the garbage collector."""
    old, new = attempt.old_obj, attempt.obj
    if old is None or new is None:
        return False
    kept = {
        "finalizers": old.metadata.finalizers,
        "owner_references": old.metadata.owner_references,
        "managed_fields": old.metadata.managed_fields,
    }
    return bool(msgspec.structs.replace(new, metadata=msgspec.structs.replace(new.metadata, **kept)) == old)
