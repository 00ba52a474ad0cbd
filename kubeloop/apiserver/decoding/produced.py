"""Patched documents as errors show them: upstream's patch library sorts the keys of objects that it parsed."""

from __future__ import annotations

from typing import Any


def after_merge(patched: Any, patch: Any) -> Any:
    """Return the result of a merge patch with sorted keys in all objects that the patch names."""
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
    """Return the result of a JSON patch with sorted keys in all objects on its operations' paths."""
    shown = {key: patched[key] for key in sorted(patched)}
    for operation in operations:
        for field in ("path", "from"):
            shown = _opened(shown, _steps(operation.get(field, "")))
    return shown


def _steps(pointer: str) -> list[str]:
    """Return the path to the parent of a JSON pointer's target."""
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
