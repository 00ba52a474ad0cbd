# SPDX-License-Identifier: Apache-2.0
"""Label selectors: parsing, conversion and matching; `field_selectors` has those for fields.

text "app=web,!old"  --> parser  --+
LabelSelector object --> objects --+--> LabelSelector (labels) --> matches(labels)
"""

from kubeloop.api.selectors.labels import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    Requirement,
    new_requirement,
    selector_from_set,
    validate_requirement,
)
from kubeloop.api.selectors.objects import label_selector_as_selector, validate_label_selector, validate_labels
from kubeloop.api.selectors.operators import Operator, SelectorError
from kubeloop.api.selectors.parser import parse_label_selector

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "LabelSelector",
    "Operator",
    "Requirement",
    "SelectorError",
    "label_selector_as_selector",
    "new_requirement",
    "parse_label_selector",
    "selector_from_set",
    "validate_label_selector",
    "validate_labels",
    "validate_requirement",
]
