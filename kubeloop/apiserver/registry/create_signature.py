# SPDX-License-Identifier: Apache-2.0
"""Signature of a new object: equal for all objects that are made from one template.

body ─▶ decoded, defaulted object ─▶ signature ─┬▶ pod_create_cache: admitted form, validity, owned fields of a pod
                                                └▶ field_manager: owned fields of an object of any kind
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kubeloop.api import codec
from kubeloop.api.structural.instance import CustomResourceObject


def create_signature(obj: Any) -> bytes:
    """Return the signature of a new object: its encoding without name, UID and creation time.

    Invariant: two new objects with one signature differ in these three fields only. So whatever is a function of the
    other fields (owned fields, admitted form, validity of the spec) is the same for both.
    """
    meta = obj.metadata
    anonymous = replace(meta, name="", uid="", creation_timestamp=None)
    if isinstance(obj, CustomResourceObject):
        return codec.encode({**obj, "metadata": anonymous})
    codec.force_setattr(obj, "metadata", anonymous)
    try:
        return codec.encode(obj)
    finally:
        codec.force_setattr(obj, "metadata", meta)
