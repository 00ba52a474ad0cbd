# SPDX-License-Identifier: Apache-2.0
"""Match conditions of webhook authorizers: CEL expressions about the spec of the SubjectAccessReview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubeloop.api.cel.program import Program
from kubeloop.api.cel.values import CelError
from kubeloop.api.expressions.access import REQUEST, compile_match_condition
from kubeloop.api.meta.field_path import aggregate

_STRINGS = ("namespace", "verb", "group", "version", "resource", "subresource", "name")


class WebhookMatchConditions:
    """Compiled conditions, all of which must hold."""

    def __init__(self, expressions: Sequence[str]) -> None:
        self._programs: list[Program] = [compile_match_condition(text) for text in expressions]

    def __call__(self, spec: Mapping[str, Any]) -> bool:
        """Return True if all hold; a false one decides, else errors do: raises ValueError."""
        values = {REQUEST: _request(spec)}
        problems: list[str] = []
        for program in self._programs:
            try:
                if program.evaluate(values)[0] is not True:
                    return False
            except CelError as error:
                problems.append(f"cel evaluation error: expression '{program.text}' resulted in error: {error}")
        if problems:
            raise ValueError(aggregate(problems))
        return True


def _request(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variable `request`: the spec with all its text fields, also the empty ones."""
    request = {"user": "", "groups": [], "uid": "", "extra": {}, **spec}
    if "resourceAttributes" in spec:
        request["resourceAttributes"] = {**dict.fromkeys(_STRINGS, ""), **spec["resourceAttributes"]}
    else:
        request["nonResourceAttributes"] = {"path": "", "verb": "", **spec.get("nonResourceAttributes", {})}
    return request
