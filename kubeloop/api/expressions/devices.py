# SPDX-License-Identifier: Apache-2.0
"""Compilation of CEL device selectors."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

from kubeloop.api.cel.check.types import BOOL, DYN, STRING, Type, map_of, object_named
from kubeloop.api.cel.environment import Environment, FieldType, ObjectType
from kubeloop.api.cel.library.kubernetes import kubernetes_environment
from kubeloop.api.cel.library.quantities import QUANTITY
from kubeloop.api.cel.parse.syntax import CompileError
from kubeloop.api.cel.program import Program, compile_expression
from kubeloop.api.cel.values import CelError

_DEVICE: Final = "kubernetes.DRADevice"
_FIELDS: Final[dict[str, Type]] = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": map_of(STRING, map_of(STRING, DYN)),
    "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
}


@cache
def _environment() -> Environment:
    device = ObjectType(_DEVICE, {name: FieldType(one, name) for name, one in _FIELDS.items()})
    return kubernetes_environment().extend({"device": object_named(_DEVICE)}, (device,))


@lru_cache(maxsize=256)
def device_selector(text: str) -> Program | str:
    """Return the compiled selector of a device, or its compile error."""
    try:
        program = compile_expression(text, _environment())
    except (CompileError, CelError) as error:
        return f"compilation failed: {error}"
    if program.type not in (BOOL, DYN):
        return f"must evaluate to bool or the unknown type, not {program.type}"
    return program
