# SPDX-License-Identifier: Apache-2.0
"""Reconciliation of the default FlowSchemas and PriorityLevelConfigurations, as upstream's configuration producer.

Mandatory objects always get their spec back. Suggested ones do while their annotation
`apf.kubernetes.io/autoupdate-spec` is "true", or without a valid annotation, while nobody has changed their spec.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubeloop.api import codec
from kubeloop.api.defaults import apply_defaults
from kubeloop.api.generated.meta_v1 import ObjectMeta

GROUP: Final = "flowcontrol.apiserver.k8s.io"
AUTOUPDATE: Final = "apf.kubernetes.io/autoupdate-spec"
MANDATORY: Final = frozenset({"exempt", "catch-all"})
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")


class _MetadataOnly(msgspec.Struct):
    metadata: ObjectMeta


def reconcile_flow_control(present: Any, wanted: Any) -> Any:
    """Return a flow schema or priority level as it should be; the same object if it is."""
    meta = present.metadata
    annotated = _parse_bool(meta.annotations.get(AUTOUPDATE, ""))
    updated = meta.name in MANDATORY or (annotated if annotated is not None else meta.generation == 1)
    changed = present
    if updated and (spec := _defaulted(wanted).spec) != present.spec:
        changed = replace(changed, spec=spec, metadata=replace(meta, generation=meta.generation + 1))
    if annotated != updated:
        annotations = {**meta.annotations, AUTOUPDATE: "true" if updated else "false"}
        changed = replace(changed, metadata=replace(changed.metadata, annotations=annotations))
    return changed


def is_autoupdated(stored: bytes) -> bool:
    """Return True if the annotation of a stored object is true: it is an older version's default object."""
    annotations = codec.decode(stored, _MetadataOnly).metadata.annotations
    return bool(_parse_bool(annotations.get(AUTOUPDATE, "")))


def _parse_bool(text: str) -> bool | None:
    return True if text in _TRUE else False if text in _FALSE else None


def _defaulted(wanted: Any) -> Any:
    whole = codec.decode(codec.encode(wanted), type(wanted))
    apply_defaults(whole)
    return whole
