# SPDX-License-Identifier: Apache-2.0
"""Shrinking: reduces a case to the smallest one that still shows a difference of the same kind."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tools.differential.case import Case, Step

_MAX_TRIES = 200
_MAX_SECONDS = 20.0
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def shrink(case: Case, still_differs: Callable[[Case], bool]) -> Case:
    """Return the smallest case found by removing steps, headers, query parameters and parts of bodies."""
    tries, deadline = 0, time.monotonic() + _MAX_SECONDS
    while True:
        for candidate in _smaller(case):
            tries += 1
            if tries > _MAX_TRIES or time.monotonic() > deadline:
                return case
            if still_differs(candidate):
                case = candidate
                break
        else:
            return case


def _smaller(case: Case) -> Iterator[Case]:
    for index in range(len(case.steps)):
        if len(case.steps) > 1:
            yield replace(case, steps=case.steps[:index] + case.steps[index + 1 :])
    for index, step in enumerate(case.steps):
        for smaller in _smaller_steps(step):
            yield replace(case, steps=(*case.steps[:index], smaller, *case.steps[index + 1 :]))


def _smaller_steps(step: Step) -> Iterator[Step]:
    path, _, query = step.path.partition("?")
    parameters = query.split("&") if query else []
    for index, parameter in enumerate(parameters):
        if parameter == "dryRun=All" or parameter.startswith("timeoutSeconds="):
            continue  # objects of some kinds must never be stored; a watch without a limit does not end
        rest = "&".join(parameters[:index] + parameters[index + 1 :])
        yield replace(step, path=f"{path}?{rest}" if rest else path)
    for name in step.headers:
        if name != "Content-Type":
            yield replace(step, headers={key: value for key, value in step.headers.items() if key != name})
    for body in smaller_values(step.body):
        yield replace(step, body=body)


def smaller_values(value: Any) -> Iterator[Any]:
    """Yield copies of a JSON value with one part removed, large parts first."""
    for path in _paths(value):
        copied = copy.deepcopy(value)
        place = copied
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]
        yield copied


def _paths(value: Any) -> list[tuple[Any, ...]]:
    """Return the paths to all parts of a value, outer ones first; apiVersion and kind stay."""
    found: list[tuple[Any, ...]] = []
    pending: list[tuple[tuple[Any, ...], Any]] = [((), value)]
    while pending:
        path, part = pending.pop(0)
        keys = list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
        for key in keys:
            if key not in ("apiVersion", "kind") and not _limits_policy(key, part[key]):
                found.append((*path, key))
            pending.append(((*path, key), part[key]))
    return found


def _limits_policy(key: Any, value: Any) -> bool:
    """Return True for the part of a policy that keeps it away from other cases, and for all that contains it."""
    if key in ("namespaceSelector", _NAMESPACE_LABEL):
        return True
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return any(_limits_policy(name, one) for name, one in inner)
