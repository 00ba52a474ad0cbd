# SPDX-License-Identifier: Apache-2.0
"""A struct that readers share is never changed by a write that starts from it, not even for a moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from kubeloop.api import codec
from kubeloop.apiserver.registry.existing_object import ExistingObject, OwnedObject, SharedObject
from kubeloop.apiserver.registry.storage import ResourceStorage

PODS, POD = "/api/v1/namespaces/shop/pods", "/api/v1/namespaces/shop/pods/p"
SPEC = {"containers": [{"name": "c", "image": "i"}]}
PATCHES = [
    ("strategic", f"{POD}/status", {"status": {"phase": "Running", "conditions": [{"type": "A", "status": "True"}]}}),
    ("merge", f"{POD}/status", {"metadata": {"labels": {"l": "2"}}, "status": {"reason": "R"}}),
    ("merge", f"{POD}/status", {"status": {"phase": 5}}),
    ("merge", f"{POD}/status", {"spec": {"activeDeadlineSeconds": 9}, "status": {"phase": "Running"}}),
    ("strategic", POD, {"metadata": {"annotations": {"x": "y"}}}),
    ("strategic", POD, {"metadata": {"labels": {"l": None}}, "spec": {"activeDeadlineSeconds": 7}}),
    ("strategic", POD, {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}),
    ("merge", POD, {"metadata": {"annotations": {"x": "y"}}, "spec": {"activeDeadlineSeconds": 7}}),
    ("merge", POD, {"apiVersion": "v1", "metadata": {"annotations": {"x": "y"}}}),
    ("merge", POD, {"metadata": {"managedFields": []}}),
    ("json", POD, [{"op": "add", "path": "/metadata/labels/x", "value": "y"}]),
]


@pytest.fixture
def storage(api: Any) -> ResourceStorage:
    api.made(PODS, {"metadata": {"name": "p", "labels": {"l": "1"}}, "spec": SPEC})
    found: ResourceStorage = api.registry.storage_named("", "v1", "pods")
    return found


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Yield every struct that is mutated in place."""
    structs: list[Any] = []
    change = codec.force_setattr

    def recorded(obj: Any, name: str, value: Any) -> None:
        structs.append(obj)
        change(obj, name, value)

    monkeypatch.setattr(codec, "force_setattr", recorded)
    return structs


def parts_of(value: Any) -> Iterator[msgspec.Struct]:
    """All structs within a struct, with itself."""
    if isinstance(value, msgspec.Struct):
        yield value
        for name in value.__struct_fields__:
            yield from parts_of(getattr(value, name))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from parts_of(one)


def shared_pod(storage: ResourceStorage, changed: list[Any]) -> tuple[Any, ExistingObject]:
    record = storage.peek("shop", "p")
    assert record is not None
    shared = storage.shared_struct(record)
    changed.clear()  # its decoding
    return shared, ExistingObject(storage, record)


@pytest.mark.parametrize(("kind", "path", "patch"), PATCHES)
def test_no_patch_changes_the_shared_struct(
    api: Any, storage: ResourceStorage, changed: list[Any], kind: str, path: str, patch: Any
) -> None:
    shared, _ = shared_pod(storage, changed)
    before, parts = codec.encode(shared), {id(one) for one in parts_of(shared)}
    assert api.patch(kind, path, patch).status in (200, 400, 422)
    assert codec.encode(shared) == before
    assert not parts & {id(one) for one in changed}


def test_patch_of_metadata_decodes_no_shared_pod(
    api: Any, storage: ResourceStorage, changed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    shared_pod(storage, changed)

    def fail(*_: Any) -> Any:
        raise AssertionError("the record was decoded")

    monkeypatch.setattr(type(storage.serializer), "decode_stored", fail)
    assert api.patch("strategic", POD, {"metadata": {"annotations": {"x": "y"}}}).status == 200


def test_mutating_form_has_its_own_struct(storage: ResourceStorage, changed: list[Any]) -> None:
    shared, existing = shared_pod(storage, changed)
    assert existing.use_shared().served is shared
    owned = existing.use_owned()
    assert owned.served is not shared
    assert "managedFields" not in owned.plain["metadata"]
    assert owned.served == shared
    assert changed
    assert all(one is owned.served.metadata for one in changed)


def test_full_comparison_has_its_own_struct(storage: ResourceStorage, changed: list[Any]) -> None:
    shared, existing = shared_pod(storage, changed)
    existing.use_shared()
    assert existing.diff_base == existing.diff_target(shared) | {"metadata": existing.diff_base["metadata"]}
    assert isinstance(existing.form, OwnedObject)
    assert not {id(one) for one in parts_of(shared)} & {id(one) for one in changed}


def test_partial_comparison_uses_the_shared_struct(storage: ResourceStorage, changed: list[Any]) -> None:
    shared, existing = shared_pod(storage, changed)
    existing.use_shared()
    existing.restrict_to(("metadata", "status"))
    assert existing.diff_base.keys() == {"metadata", "status"}
    assert "managedFields" not in existing.diff_base["metadata"]
    assert existing.form.served is shared
    assert not changed


def test_shared_object_has_no_mutating_form() -> None:
    assert not hasattr(SharedObject, "plain")
    assert not hasattr(SharedObject, "plain_of")
