# SPDX-License-Identifier: Apache-2.0
"""JSON patch (RFC 6902): a list of operations, applied in sequence or not at all.

Like upstream, and unlike the RFC: `replace` adds an absent object member, `copy` of an absent member gives null, `test`
of an absent member for null holds, negative indexes count from a list's end, and the whole document can be tested and
replaced but not added, moved or removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from kubeloop.api.patch.errors import BadPatch, PatchRejected, PatchTooLarge, nesting_error
from kubeloop.api.patch.gotext import json_kind

MAX_OPERATIONS: Final = 10_000
# Copies can double a document with every operation, so their total is limited to the size of a request.
MAX_COPIED_BYTES: Final = 3 * 1024 * 1024

_INDEX: Final = re.compile(r"[+-]?[0-9]{1,18}")
_TEXT_FIELDS: Final = ("op", "path", "from")

_Container = dict[str, Any] | list[Any]


def apply_json_patch(document: Any, operations: Any) -> Any:
    """Return the document after all operations."""
    if operations is None:
        return document
    _check_shape(operations)
    if len(operations) > MAX_OPERATIONS:
        raise PatchTooLarge(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        )
    draft = _Draft(document)
    try:
        for operation in operations:
            name = (operation or {}).get("op")
            apply = _OPERATIONS.get(name) if name is not None else None
            if apply is None:
                raise PatchRejected(f"Unexpected kind: {'unknown' if name is None else name}")
            apply(draft, operation)
    except RecursionError:
        raise nesting_error() from None
    return draft.root


def _check_shape(operations: Any) -> None:
    decoding = "error decoding patch: json: cannot unmarshal"
    if not isinstance(operations, list):
        raise BadPatch(f"{decoding} {json_kind(operations)} into Go value of type []handlers.jsonPatchOp")
    for operation in operations:
        if operation is None:
            continue
        if not isinstance(operation, dict):
            raise BadPatch(f"{decoding} {json_kind(operation)} into Go value of type handlers.jsonPatchOp")
        for field in _TEXT_FIELDS:
            value = operation.get(field)
            if value is not None and not isinstance(value, str):
                raise BadPatch(f"{decoding} {json_kind(value)} into Go struct field jsonPatchOp.{field} of type string")


class _Draft:
    """Document under modification: containers on a changed path are copied once, then changed in place."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self.copied_bytes = 0
        # Containers created here, by id, each reachable by one path only. Holding them keeps their ids unique.
        self._own: dict[int, _Container] = {}

    def holder(self, path: str) -> tuple[_Container, str]:
        """Return the container of the path's last step, for reading, and that step."""
        steps = _steps(path)
        at = self.root
        for step in steps[:-1]:
            at = _get(at, step, path)
        return _container(at, path), steps[-1]

    def writable_holder(self, path: str) -> tuple[_Container, str]:
        """Return the container of the path's last step, for writing, and that step."""
        steps = _steps(path)
        at = self.root = self._owned(self.root, path)
        for step in steps[:-1]:
            found = _get(at, step, path)
            owned = self._owned(found, path)
            if owned is not found:
                _put(at, step, owned)
            at = owned
        return at, steps[-1]

    def share_everything(self) -> None:
        """Treat all containers as shared again, because a value is about to have two places."""
        self._own.clear()

    def _owned(self, found: Any, path: str) -> _Container:
        container = _container(found, path)
        if id(container) in self._own:
            return container
        fresh = container.copy()
        self._own[id(fresh)] = fresh
        return fresh


def _steps(path: str) -> list[str]:
    # Text before the first slash is ignored, as upstream does.
    _, slash, rest = path.partition("/")
    if not slash:
        raise PatchRejected(f"doc is missing path: {path}")
    steps = rest.split("/")
    return [step.replace("~1", "/").replace("~0", "~") for step in steps] if "~" in rest else steps


def _container(found: Any, path: str) -> _Container:
    if isinstance(found, dict | list):
        return found
    raise PatchRejected(f"doc is missing path: {path}")


def _index(step: str, length: int) -> int:
    """Parse a list index below a length; a negative one counts from the end."""
    if not _INDEX.fullmatch(step):
        raise PatchRejected(f"value was not a proper array index: '{step}'")
    index = int(step)
    if not -length <= index < length:
        raise PatchRejected(f"Unable to access invalid index: {index}")
    return index % length


def _get(holder: Any, step: str, path: str) -> Any:
    """Return the value at a step; an absent object member is null."""
    container = _container(holder, path)
    return container.get(step) if isinstance(container, dict) else container[_index(step, len(container))]


def _put(holder: _Container, step: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[step] = value
    else:
        holder[_index(step, len(holder))] = value


def _insert(holder: _Container, step: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[step] = value
    elif step == "-":
        holder.append(value)
    else:
        holder.insert(_index(step, len(holder) + 1), value)


def _take(holder: _Container, step: str) -> Any:
    if isinstance(holder, list):
        return holder.pop(_index(step, len(holder)))
    if step not in holder:
        raise PatchRejected(f"Unable to remove nonexistent key: {step}")
    return holder.pop(step)


def _pointer(operation: Mapping[str, Any], field: str = "path") -> str:
    pointer = operation.get(field)
    if pointer is None:
        raise PatchRejected(f"operation missing {field} field")
    return str(pointer)


def _add(draft: _Draft, operation: Mapping[str, Any]) -> None:
    _insert(*draft.writable_holder(_pointer(operation)), operation.get("value"))


def _remove(draft: _Draft, operation: Mapping[str, Any]) -> None:
    path = _pointer(operation)
    try:
        holder, step = draft.writable_holder(path)
    except PatchRejected:
        raise PatchRejected(f'remove operation does not apply: doc is missing path: "{path}": missing value') from None
    try:
        _take(holder, step)
    except PatchRejected as error:
        why = "missing value" if isinstance(holder, dict) else "invalid index referenced"
        raise PatchRejected(f"error in remove for path: '{path}': {error.detail}: {why}") from None


def _replace(draft: _Draft, operation: Mapping[str, Any]) -> None:
    path, value = _pointer(operation), operation.get("value")
    if path:
        _put(*draft.writable_holder(path), value)
    elif isinstance(value, dict | list):
        draft.root = value
    else:
        raise PatchRejected("replace operation value must be object or array")


def _move(draft: _Draft, operation: Mapping[str, Any]) -> None:
    value = _take(*draft.writable_holder(_pointer(operation, "from")))
    _insert(*draft.writable_holder(_pointer(operation)), value)


def _copy(draft: _Draft, operation: Mapping[str, Any]) -> None:
    source = _pointer(operation, "from")
    value = _get(*draft.holder(source), source)
    draft.copied_bytes += len(msgspec.json.encode(value))
    if draft.copied_bytes > MAX_COPIED_BYTES:
        raise PatchRejected(f"Unable to complete the copy, more than {MAX_COPIED_BYTES} bytes would be copied")
    draft.share_everything()
    _insert(*draft.writable_holder(_pointer(operation)), value)


def _test(draft: _Draft, operation: Mapping[str, Any]) -> None:
    path = _pointer(operation)
    found = _get(*draft.holder(path), path) if path else draft.root
    if not _same(found, operation.get("value")):
        raise PatchRejected(f"testing value {path} failed")


def _same(left: Any, right: Any) -> bool:
    """Return True if two values are equal as JSON text: 1, 1.0 and true are three different values."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return len(left) == len(right) and all(key in right and _same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


_OPERATIONS: Final[Mapping[str, Callable[[_Draft, Mapping[str, Any]], None]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}
