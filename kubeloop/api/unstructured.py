"""Objects whose types are not generated: custom resources, and objects of which only the metadata is wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars import wire
from kubeloop.api.struct_patch import Overlay

PARTIAL_KIND = "PartialObjectMetadata"
PARTIAL_VERSION = "meta.k8s.io/v1"


class PartialObject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An object of any kind without all but its metadata."""

    kind: str = msgspec.field(default_factory=lambda: PARTIAL_KIND)
    api_version: str = msgspec.field(default_factory=lambda: PARTIAL_VERSION, name="apiVersion")
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class Custom(Mapping[str, Any]):
    """A custom resource: a mapping as it stands on the wire, with the same metadata struct that every kind has.

    Shared like all objects, so what is in it must not be changed; `document` is for encoding it.
    """

    __slots__ = ("_metadata", "document")

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self._metadata: ObjectMeta | None = None

    @property
    def kind(self) -> str:
        return str(self.document.get("kind", ""))

    @property
    def api_version(self) -> str:
        return str(self.document.get("apiVersion", ""))

    @property
    def metadata(self) -> ObjectMeta:
        """Made when first asked for."""
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
        if isinstance(other, Custom):
            return self.document == other.document
        return self.document == other

    __hash__ = None  # type: ignore[assignment]  # like the dict it stands for

    def __repr__(self) -> str:
        return f"Custom({self.document!r})"


_METADATA = msgspec.json.Decoder(ObjectMeta, dec_hook=wire.decode_hook)


def plain_body(body: Any) -> Any:
    """What to encode for a body: a custom resource is its document, and so is a patch that is more than that."""
    return body.document if isinstance(body, (Custom, Overlay)) else body
