# SPDX-License-Identifier: Apache-2.0
"""Objects without generated types: custom resources, and objects reduced to their metadata."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars import wire
from kubeloop.api.struct_patch import StructPatch

PARTIAL_KIND = "PartialObjectMetadata"
PARTIAL_VERSION = "meta.k8s.io/v1"


class PartialObjectMetadata(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """PartialObjectMetadata: an object of any kind, reduced to its metadata."""

    kind: str = msgspec.field(default_factory=lambda: PARTIAL_KIND)
    api_version: str = msgspec.field(default_factory=lambda: PARTIAL_VERSION, name="apiVersion")
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class Unstructured(Mapping[str, Any]):
    """Custom resource: a mapping in wire form, with the same metadata struct as every kind.

    Shared like all objects, so its content must not be changed; `document` is used to encode it.
    """

    __slots__ = ("_metadata", "document")

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self._metadata: ObjectMeta | None = None

    @property
    def kind(self) -> str:
        """Kind of the object."""
        return str(self.document.get("kind", ""))

    @property
    def api_version(self) -> str:
        """Value of apiVersion."""
        return str(self.document.get("apiVersion", ""))

    @property
    def metadata(self) -> ObjectMeta:
        """Metadata struct, decoded on first use."""
        if self._metadata is None:
            raw = msgspec.json.encode(self.document.get("metadata") or {})
            self._metadata = _METADATA.decode(raw)
        return self._metadata

    def __getitem__(self, key: str) -> Any:
        return self.document[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.document)

    def __len__(self) -> int:
        return len(self.document)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Unstructured):
            return self.document == other.document
        return self.document == other

    __hash__ = None  # type: ignore[assignment]  # like the dict it stands for

    def __repr__(self) -> str:
        return f"Custom({self.document!r})"


_METADATA = msgspec.json.Decoder(ObjectMeta, dec_hook=wire.decode_hook)


def body_document(body: Any) -> Any:
    """Return the value to encode for a body: the document of a custom resource or of an overlay."""
    if isinstance(body, (msgspec.Struct, dict)):  # as most are; `Unstructured` is an abstract class's, slow to test
        return body
    return body.document if isinstance(body, (StructPatch, Unstructured)) else body
