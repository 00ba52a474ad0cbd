# SPDX-License-Identifier: Apache-2.0
"""Operators and errors shared by label and field selectors."""

from enum import Enum


class SelectorError(ValueError):
    """Raised for a malformed selector; the message is shown to clients."""


class Operator(Enum):
    """Operator of a requirement; the value is upstream's name, which error messages show."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER_THAN = "gt"
    LESS_THAN = "lt"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
