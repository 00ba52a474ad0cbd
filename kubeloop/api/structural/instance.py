# SPDX-License-Identifier: Apache-2.0
"""Object of a custom resource: a plain document whose metadata is the struct that all kinds share."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from kubeloop.api import codec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.meta.field_path import FieldErrors
from kubeloop.api.structural.model import META_FIELDS

_SORTED: Final = msgspec.json.Encoder(order="deterministic")


class CustomResourceObjectRules(Protocol):
    """Protocol of the rules that an instance's definition imposes."""

    stored_version: str

    def validate_create(self, obj: CustomResourceObject) -> FieldErrors:
        """Validate a new object."""

    def validate_update(self, new: CustomResourceObject, old: CustomResourceObject, subresource: str) -> FieldErrors:
        """Validate an object that replaces an old one."""


class CustomResourceObject(dict[str, Any]):
    """Decoded custom resource. Its keys begin with kind, apiVersion and metadata, as stored bytes do."""

    __slots__ = ("ratcheted_errors", "rules")

    def __init__(self, kind: str, api_version: str, metadata: ObjectMeta, rules: CustomResourceObjectRules) -> None:
        super().__init__(kind=kind, apiVersion=api_version, metadata=metadata)
        self.rules = rules
        # Rule violations that are excused because the value is unchanged; set during validation.
        self.ratcheted_errors: FieldErrors = []

    @property
    def kind(self) -> str:
        """Kind of the object."""
        kind: str = self["kind"]
        return kind

    @property
    def api_version(self) -> str:
        """Value of apiVersion."""
        api_version: str = self["apiVersion"]
        return api_version

    @property
    def metadata(self) -> ObjectMeta:
        """Metadata struct."""
        metadata: ObjectMeta = self["metadata"]
        return metadata

    def stored_bytes(self) -> bytes:
        """Encode in the storage version with sorted fields, so that equal objects have equal bytes."""
        rest = _SORTED.encode({name: value for name, value in self.items() if name not in META_FIELDS})
        head = codec.encode({"kind": self.kind, "apiVersion": self.rules.stored_version})
        parts = [head[:-1], b',"metadata":', codec.encode(self.metadata), b"," if len(rest) > 2 else b"", rest[1:]]
        return b"".join(parts)
