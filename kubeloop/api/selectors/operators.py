"""What selectors of both kinds share: how a requirement relates a key to values, and the error of a bad selector."""

from enum import Enum


class SelectorError(ValueError):
    """A selector that can't be understood; the text is what a client is told."""


class Operator(Enum):
    """How a requirement relates a key to values; the value is upstream's name, which error messages show."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER_THAN = "gt"
    LESS_THAN = "lt"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
