# SPDX-License-Identifier: Apache-2.0
"""Existing object that a write starts from, in the forms that the write's steps need, each made at most once.

A struct that is shared with readers must never change. `SharedObject` therefore has no method that changes it, not even
for a moment; `OwnedObject` has a struct of its own. A write asks `ExistingObject` for the one that it needs.
"""

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


class SharedObject:
    """Existing object as a struct that other readers may hold: it is only read."""

    def __init__(self, storage: ResourceStorage, record: Record) -> None:
        self._storage = storage
        self._record = record

    @cached_property
    def stored(self) -> Any:
        """Object as a struct of the stored version."""
        return self._storage.peek_decoded(self._record)

    @cached_property
    def served(self) -> Any:
        """Object as a struct of the served version."""
        return to_served_version(self.stored, self._storage.resource)

    @cached_property
    def managed_fields(self) -> list[dict[str, Any]]:
        """Entries of managedFields as plain JSON; the field sets are shared between objects."""
        return [plain_entry(entry) for entry in self.served.metadata.managed_fields]

    @property
    def managed_fields_by_id(self) -> dict[int, ManagedFieldsEntry]:
        """Structs of the managedFields entries, by the identity of their plain JSON."""
        return dict(zip(map(id, self.managed_fields), self.served.metadata.managed_fields, strict=True))

    def plain_parts(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Return some parts as plain JSON without managedFields; absent ones are left out."""
        was = self.served
        parts = {}
        for name in names:
            part = getattr(was, name)
            if name == "metadata":
                part = msgspec.structs.replace(part, managed_fields=())
            if part is not None:
                parts[name] = codec.to_plain(part)
        return parts


class OwnedObject(SharedObject):
    """Existing object as a struct that belongs to the write; it can be read like a shared one."""

    @cached_property
    def stored(self) -> Any:
        """Object as a struct of the stored version."""
        return self._storage.serializer.decode_stored(self._record.value, self._record.mod_revision)

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
    def plain_with_managed_fields(self) -> dict[str, Any]:
        """Object as plain JSON with managedFields, for the rare patch that changes them."""
        document: dict[str, Any] = codec.to_plain(self.served)
        return document

    def plain_of(self, obj: Any) -> dict[str, Any]:
        """Return another object of the kind as plain JSON; it shares every unchanged part with this one."""
        if isinstance(obj, CustomResourceObject):
            return {**obj, "metadata": codec.to_plain(obj.metadata)}
        document: dict[str, Any] = {}
        was = self.served
        empty: dict[str, Any] = {}
        for attribute, name in zip(obj.__struct_fields__, obj.__struct_encode_fields__, strict=True):
            value = getattr(obj, attribute)
            if name in self.plain and value == getattr(was, attribute):
                document[name] = self.plain[name]
            elif value or name == "status":
                part = codec.to_plain(value)
                if part not in ((), None, [], {}) or name in self.plain or name == "status":
                    document[name] = part
            elif value is not None:
                empty[attribute] = value
        # An empty field is absent, unless it is optional and set, or its kind sends it always.
        return document | ({} if not empty else _encoded_parts(type(obj)(**empty), empty))


def _encoded_parts(obj: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    """Return those of a struct's attributes as plain JSON that its encoding contains."""
    plain = codec.to_plain(obj)
    names = zip(obj.__struct_fields__, obj.__struct_encode_fields__, strict=True)
    return {name: plain[name] for attribute, name in names if attribute in attributes and name in plain}


class ExistingObject:
    """Newest record of an object, converted to one served version."""

    def __init__(self, storage: ResourceStorage, record: Record) -> None:
        self.record = record
        self.storage = storage
        self.form: SharedObject = OwnedObject(storage, record)  # to be read only, since it may be shared
        self._changed_parts: tuple[str, ...] | None = None  # the only parts that a patch changes
        self._parts: dict[str, Any] = {}  # the existing ones of these, with their old values

    def use_shared(self) -> SharedObject:
        """Use the shared struct, for a write that sets nothing within the parts that it keeps."""
        self.form = SharedObject(self.storage, self.record)
        return self.form

    def use_owned(self) -> OwnedObject:
        """Use a struct of this write's own; any part may change."""
        self._changed_parts = None
        owned = self.form
        if not isinstance(owned, OwnedObject):
            owned = self.form = OwnedObject(self.storage, self.record)
        return owned

    def restrict_to(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Restrict the write to these parts and return them as plain JSON without managedFields.

        All other parts stay unchanged.
        """
        self._changed_parts, self._parts = names, self.form.plain_parts(names)
        return self._parts

    @property
    def diff_base(self) -> dict[str, Any]:
        """Base of the field manager's comparison: the whole object, or the parts that can have changed."""
        return self.use_owned().plain if self._changed_parts is None else {"metadata": {}, **self._parts}

    def diff_target(self, obj: Any) -> dict[str, Any]:
        """Return the corresponding parts of a new object as plain JSON."""
        if self._changed_parts is None:
            return self.use_owned().plain_of(obj)
        document: dict[str, Any] = {"metadata": {}}
        for name in self._changed_parts:
            part = codec.to_plain(getattr(obj, name))
            if part or name in self._parts or name == "status":
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
