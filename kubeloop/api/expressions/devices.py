# SPDX-License-Identifier: Apache-2.0
"""Compilation of the CEL expressions of device requests: selectors, and attributes derived of devices."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Final

from kubeloop.api.cel.check.types import BOOL, DYN, INT, STRING, Type, list_of, map_of, object_named
from kubeloop.api.cel.environment import Environment, FieldType, ObjectType
from kubeloop.api.cel.library.kubernetes import kubernetes_environment
from kubeloop.api.cel.library.quantities import QUANTITY
from kubeloop.api.cel.library.versions import SEMVER
from kubeloop.api.cel.parse.syntax import CompileError
from kubeloop.api.cel.program import Program, compile_expression
from kubeloop.api.cel.values import CelError

_SCALARS: Final = (BOOL, INT, STRING, DYN, SEMVER)
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
    program = _compile(text)
    if not isinstance(program, str) and program.type not in (BOOL, DYN):
        return f"must evaluate to bool or the unknown type, not {program.type}"
    return program


@lru_cache(maxsize=256)
def derived_attribute(text: str, allows_lists: bool) -> Program | str:
    """Return the compiled expression of a derived attribute, or its compile error."""
    program = _compile(text)
    if isinstance(program, str) or program.type in _SCALARS:
        return program
    if allows_lists and program.type in [list_of(one) for one in _SCALARS]:
        return program
    lists = " or a list of these scalars" if allows_lists else ""
    return f"must evaluate to a primitive scalar (string, integer, boolean, semver){lists}, not {program.type}"


def _compile(text: str) -> Program | str:
    try:
        return compile_expression(text, _environment())
    except (CompileError, CelError) as error:
        return f"compilation failed: {error}"
