"""How errors show the document that a patch made: upstream's patch library sorts the keys of every object it opened."""

from __future__ import annotations

from typing import Any


def after_merge(patched: Any, patch: Any) -> Any:
    """The document that a merge patch made: opened is what the patch speaks of."""
    if isinstance(patched, list):
        return [_sorted(one) for one in patched]
    if not isinstance(patched, dict) or not isinstance(patch, dict):
        return patched
    return {key: after_merge(patched[key], patch[key]) if key in patch else patched[key] for key in sorted(patched)}


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


def after_operations(patched: Any, operations: Any) -> Any:
    """The document that a JSON patch made: opened is what lies on the way to the places of its operations."""
    shown = {key: patched[key] for key in sorted(patched)}
    for operation in operations:
        for field in ("path", "from"):
            shown = _opened(shown, _steps(operation.get(field, "")))
    return shown


def _steps(pointer: str) -> list[str]:
    """The way to the object or list that holds a pointer's place."""
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:-1]]


def _opened(value: Any, steps: list[str]) -> Any:
    if isinstance(value, dict):
        value = {key: value[key] for key in sorted(value)}
        if steps and steps[0] in value:
            value[steps[0]] = _opened(value[steps[0]], steps[1:])
    elif isinstance(value, list) and steps and steps[0].isdigit() and int(steps[0]) < len(value):
        index = int(steps[0])
        value = [*value[:index], _opened(value[index], steps[1:]), *value[index + 1 :]]
    return value
