# SPDX-License-Identifier: Apache-2.0
"""Base environment: the language, Kubernetes' libraries as of 1.37, and the checks of literals."""

from __future__ import annotations

from functools import cache
from typing import Final

from kubeloop.api.cel.check.literal_checks import literal_problems
from kubeloop.api.cel.check.types import Type
from kubeloop.api.cel.environment import Environment, merge_libraries
from kubeloop.api.cel.library import (
    authorizer,
    lists,
    named_formats,
    networks,
    optionals,
    quantities,
    standard,
    strings,
    times,
    urls,
    versions,
)
from kubeloop.api.cel.library.conversions import TYPE_NAMES

_LIBRARIES: Final = (
    standard, times, optionals, strings, lists, quantities, networks, urls, named_formats, versions, authorizer,
)  # fmt: skip
_NAMED_TYPES: Final[dict[str, Type]] = {one.name: one for one in (networks.IP, networks.CIDR)}


@cache
def kubernetes_environment() -> Environment:
    """Return the base environment without variables, for extension by its users."""
    functions = merge_libraries(*(library.FUNCTIONS for library in _LIBRARIES))
    return Environment(functions, {}, {}, {**TYPE_NAMES, **_NAMED_TYPES}, (literal_problems,))
