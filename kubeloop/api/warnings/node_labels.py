# SPDX-License-Identifier: Apache-2.0
"""Warnings about deprecated node labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubeloop.api.generated.core_v1 import NodeSelectorTerm
from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.meta.name_rules import check_label_value

DEPRECATED: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}


def term_warnings(term: NodeSelectorTerm, path: FieldPath, check_values: bool = False) -> Iterator[str]:
    """Yield warnings about a node selector term; `check_values` adds values that validation does not check."""
    for i, expression in enumerate(term.match_expressions):
        at = path.child("matchExpressions").index(i)
        if message := DEPRECATED.get(expression.key):
            yield f"{at.child('key')}: {expression.key} is {message}"
        if check_values:
            for j, value in enumerate(expression.values):
                for problem in check_label_value(value):
                    yield f"{at.child('values').index(j)}: {value} is invalid, {problem}"
