"""Existing object that a write starts from, in the forms that the write's steps need, each made at most once."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import msgspec

from kubeloop.api import codec
from kubeloop.api.conversion import to_served_version
from kubeloop.api.generated.meta_v1 import ManagedFieldsEntry
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.apiserver.registry.storage import ResourceStorage
from kubeloop.store import Record


class ExistingObject:
    """Newest record of an object, converted to one served version."""

    def __init__(self, storage: ResourceStorage, record: Record) -> None:
        self.record = record
        self.value = record.value
        self.mod_revision = record.mod_revision
        self._storage = storage
        self._changing: tuple[str, ...] | None = None  # the only parts that a patch changes
        self._parts: dict[str, Any] = {}  # the existing ones of these, with their old values

    @cached_property
    def stored(self) -> Any:
        """Object as a struct of the stored version."""
        return self._storage.view.decode_stored(self.value, self.mod_revision)

    @cached_property
    def served(self) -> Any:
        """Object as a struct of the served version."""
        return to_served_version(self.stored, self._storage.resource)

    @cached_property
    def plain(self) -> dict[str, Any]:
        """Object as plain JSON of the served version, without managedFields. Shared: patches copy what they change."""
        meta = self.served.metadata
        entries = meta.managed_fields
        codec.force_setattr(meta, "managed_fields", ())
        try:
            document: dict[str, Any] = codec.to_plain(self.served)
        finally:
            codec.force_setattr(meta, "managed_fields", entries)
        return document

    @property
    def complete(self) -> dict[str, Any]:
        """Object as plain JSON with managedFields, for the rare patch that changes them."""
        document: dict[str, Any] = codec.to_plain(self.served)
        return document

    @cached_property
    def entries(self) -> list[dict[str, Any]]:
        """Entries of managedFields as plain JSON; the field sets are shared between objects."""
        return [plain_entry(entry) for entry in self.served.metadata.managed_fields]

    @property
    def known_entries(self) -> dict[int, ManagedFieldsEntry]:
        """Structs of the managedFields entries, by the identity of their plain JSON."""
        return dict(zip(map(id, self.entries), self.served.metadata.managed_fields, strict=True))

    def only(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Restrict the write to these parts and return them as plain JSON without managedFields.

        All other parts stay unchanged.
        """
        was = self.served
        parts = {name: getattr(was, name) for name in names}
        if "metadata" in parts:
            parts["metadata"] = msgspec.structs.replace(was.metadata, managed_fields=())
        document = codec.to_plain(type(was)(**parts))
        self._changing, self._parts = names, {name: document[name] for name in names if name in document}
        return self._parts

    def borrow(self) -> None:
        """Use the shared decoded struct, for a write that sets nothing within the parts that it keeps."""
        self.__dict__["stored"] = self._storage.seen(self.record)

    def whole(self) -> None:
        """Lift the restriction of `only`: any part may change."""
        self._changing = None
        for form in ("stored", "served"):
            self.__dict__.pop(form, None)

    @property
    def compared(self) -> dict[str, Any]:
        """Base of the field manager's comparison: the whole object, or the parts that can have changed."""
        return self.plain if self._changing is None else {"metadata": {}, **self._parts}

    def compared_with(self, obj: Any) -> dict[str, Any]:
        """Return the corresponding parts of a new object as plain JSON."""
        if self._changing is None:
            return self.plain_of(obj)
        document: dict[str, Any] = {"metadata": {}}
        for name in self._changing:
            part = codec.to_plain(getattr(obj, name))
            if part or name in self._parts or name == "status":
                document[name] = part
        return document

    def plain_of(self, obj: Any) -> dict[str, Any]:
        """Return another object of the kind as plain JSON; it shares every unchanged part with this one."""
        if isinstance(obj, CustomResourceObject):
            return {**obj, "metadata": codec.to_plain(obj.metadata)}
        document: dict[str, Any] = {}
        was = self.served
        for attribute, name in zip(obj.__struct_fields__, obj.__struct_encode_fields__, strict=True):
            value = getattr(obj, attribute)
            if name in self.plain and value == getattr(was, attribute):
                document[name] = self.plain[name]
            elif (part := codec.to_plain(value)) not in ((), None, [], {}) or name in self.plain or name == "status":
                document[name] = part
        return document


@lru_cache(maxsize=4096)
def _tree(raw: bytes) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.json.decode(raw)
    return tree


def plain_entry(entry: Any) -> dict[str, Any]:
    """Return one managedFields entry as plain JSON; absent parts are left out."""
    plain: dict[str, Any] = {
        "manager": entry.manager,
        "operation": entry.operation,
        "apiVersion": entry.api_version,
    }
    if entry.time is not None:
        plain["time"] = str(entry.time)
    plain["fieldsType"] = entry.fields_type
    if raw := bytes(entry.fields_v1):
        plain["fieldsV1"] = _tree(raw)
    if entry.subresource:
        plain["subresource"] = entry.subresource
    return plain
