"""Label selectors: parsing, conversion and matching; `field_selectors` has those for fields.

text "app=web,!old"  --> parser  --+
LabelSelector object --> objects --+--> LabelSelector (labels) --> matches(labels)
"""

from kubeloop.api.selectors.labels import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    Requirement,
    from_labels,
    requirement,
    validate_requirement,
)
from kubeloop.api.selectors.objects import from_label_selector, validate_label_selector, validate_labels
from kubeloop.api.selectors.operators import Operator, SelectorError
from kubeloop.api.selectors.parser import parse_labels

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "LabelSelector",
    "Operator",
    "Requirement",
    "SelectorError",
    "from_label_selector",
    "from_labels",
    "parse_labels",
    "requirement",
    "validate_label_selector",
    "validate_labels",
    "validate_requirement",
]
