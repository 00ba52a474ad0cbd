"""Which objects are meant by their labels: selectors parsed, checked, and compiled for fast matching."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Final, Protocol

import msgspec

from kubeloop.api.fields import FieldError, FieldErrors, Path, aggregate, forbidden, invalid, quote, required
from kubeloop.api.names import check_label_value, check_qualified_name


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


_SETS: Final = (Operator.IN, Operator.NOT_IN)
_EXACT: Final = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS)
_EXISTENCE: Final = (Operator.EXISTS, Operator.DOES_NOT_EXIST)
_COMPARISONS: Final = (Operator.GREATER_THAN, Operator.LESS_THAN)
_POSITIVE: Final = (Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS)

_INTEGER: Final = re.compile("[+-]?[0-9]+")


def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text) or len(text) > 100:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class _Above:
    """The label values that are integers above a bound."""

    def __init__(self, bound: int) -> None:
        self._bound = bound

    def __contains__(self, value: object) -> bool:
        number = _int64(value) if isinstance(value, str) else None
        return number is not None and number > self._bound


class _Below:
    """The label values that are integers below a bound."""

    def __init__(self, bound: int) -> None:
        self._bound = bound

    def __contains__(self, value: object) -> bool:
        number = _int64(value) if isinstance(value, str) else None
        return number is not None and number < self._bound


# A key, a set of values (None stands for a missing label), and whether the label's value must be in it.
_Test = tuple[str, Container[str | None], bool]
_MISSING: Final[frozenset[str | None]] = frozenset((None,))


class Requirement(msgspec.Struct, frozen=True):
    """One condition on a label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def compiled(self) -> _Test:
        match self.operator:
            case Operator.EXISTS:
                return self.key, _MISSING, False
            case Operator.DOES_NOT_EXIST:
                return self.key, _MISSING, True
            case Operator.GREATER_THAN:
                return self.key, _Above(int(self.values[0])), True
            case Operator.LESS_THAN:
                return self.key, _Below(int(self.values[0])), True
            case _:
                return self.key, frozenset(self.values), self.operator in _POSITIVE

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator.value} ({','.join(sorted(self.values))})"
            case Operator.GREATER_THAN:
                return f"{self.key}>{self.values[0]}"
            case Operator.LESS_THAN:
                return f"{self.key}<{self.values[0]}"
            case _:
                return f"{self.key}{self.operator.value}{self.values[0]}"


class LabelSelector:
    """All of its requirements must hold; without any, every set of labels matches."""

    __slots__ = ("_tests", "requirements")

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self._tests: tuple[_Test, ...] = tuple(requirement.compiled() for requirement in self.requirements)

    @property
    def empty(self) -> bool:
        """Whether it restricts nothing."""
        return not self._tests

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        if not self._tests:
            return True
        get = labels.get if labels else _no_label
        for key, values, wanted in self._tests:  # noqa: SIM110 - a generator would cost more than the tests
            if (get(key) in values) is not wanted:
                return False
        return True

    def equalities(self) -> dict[str, str]:
        """The labels that a match must have with exactly one value: what an index can answer."""
        return {
            one.key: one.values[0] for one in self.requirements if one.operator in _POSITIVE and len(one.values) == 1
        }

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.requirements == self.requirements

    def __hash__(self) -> int:
        return hash((type(self), self.requirements))


class _MatchesNothing(LabelSelector):
    """No labels match; what an absent selector means."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self._tests = (("", frozenset(), True),)


def _no_label(_key: str) -> None:
    return None


EVERYTHING: Final = LabelSelector()
NOTHING: Final[LabelSelector] = _MatchesNothing()


def validate_requirement(key: str, operator: Operator, values: Sequence[str], path: Path | None = None) -> FieldErrors:
    """What is wrong with a requirement; a selector in text form has no path."""
    values_path = Path("values", path)
    errors: FieldErrors = []
    if messages := check_qualified_name(key):
        errors.append(invalid(Path("key", path), key, "; ".join(messages)))
    if operator in _SETS and not values:
        errors.append(invalid(values_path, None, "for 'in', 'notin' operators, values set can't be empty"))
    elif operator in _EXACT and len(values) != 1:
        errors.append(invalid(values_path, values or None, "exact-match compatibility requires one single value"))
    elif operator in _EXISTENCE and values:
        errors.append(invalid(values_path, values, "values set must be empty for exists and does not exist"))
    elif operator in _COMPARISONS:
        errors += _validate_comparison(values, values_path)
    for index, value in enumerate(values):
        if messages := check_label_value(value):
            errors.append(invalid(values_path.index(index).key(key), value, "; ".join(messages)))
    return errors


def _validate_comparison(values: Sequence[str], path: Path) -> FieldErrors:
    errors: FieldErrors = []
    if len(values) != 1:
        errors.append(invalid(path, values or None, "for 'Gt', 'Lt' operators, exactly one value is required"))
    for index, value in enumerate(values):
        if _int64(value) is None:
            errors.append(invalid(path.index(index), value, "for 'Gt', 'Lt' operators, the value must be an integer"))
    return errors


def requirement(key: str, operator: Operator, values: Iterable[str] = ()) -> Requirement:
    """A checked requirement; raises SelectorError with every problem."""
    listed = tuple(values)
    if errors := validate_requirement(key, operator, listed):
        raise SelectorError(aggregate(map(FieldError.message, errors)))
    return Requirement(key, operator, listed)


_TOKEN: Final = re.compile("[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^ \t\r\n=!(),<>\0]+))\0?")
_OPERATORS: Final = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}
_EXPECTED_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"


class _Parser:
    """Reads a selector's text, token by token; a token is its text and whether it is a word rather than a symbol."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, bool]] = []
        position = 0
        while token := _TOKEN.match(text, position):
            self._tokens.append((token[1] or token[2], token[1] is None))
            position = token.end()
        self._tokens.append(("", False))  # the end
        self._at = 0

    def _peek(self) -> tuple[str, bool]:
        return self._tokens[self._at]

    def _next(self) -> tuple[str, bool]:
        self._at += 1
        return self._tokens[self._at - 1]

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        text, is_word = self._peek()
        while is_word or text == "!":
            try:
                requirements.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            text, _ = self._next()
            if text == "":
                return requirements
            if text != ",":
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            text, is_word = self._peek()
            if not is_word and text != "!":
                raise SelectorError(f"found '{text}', expected: identifier after ','")
        if text != "":
            raise SelectorError(f"found '{text}', expected: !, identifier, or 'end of string'")
        return requirements

    def _requirement(self) -> Requirement:
        text, is_word = self._next()
        negated = text == "!"
        if negated:
            text, is_word = self._next()
        if not is_word:
            raise SelectorError(f"found '{text}', expected: identifier")
        if messages := check_qualified_name(text):
            raise SelectorError(invalid(None, text, "; ".join(messages)).message())
        if negated:
            return requirement(text, Operator.DOES_NOT_EXIST)
        if self._peek()[0] in ("", ","):
            return requirement(text, Operator.EXISTS)
        found, _ = self._next()
        operator = _OPERATORS.get(found)
        if operator is None:
            raise SelectorError(f"found '{found}', expected: {_EXPECTED_OPERATORS}")
        values = self._set() if operator in _SETS else {self._value()}
        return requirement(text, operator, sorted(values))

    def _value(self) -> str:
        if self._peek()[0] in ("", ","):
            return ""
        text, is_word = self._next()
        if not is_word:
            raise SelectorError(f"found '{text}', expected: identifier")
        return text

    def _set(self) -> set[str]:
        text, _ = self._next()
        if text != "(":
            raise SelectorError(f"found '{text}' expected: '('")
        text, is_word = self._peek()
        if text != ")" and text != "," and not is_word:
            raise SelectorError(f"found '{text}', expected: ',', ')' or identifier")
        values: set[str] = set()
        # Between two commas, or a comma and a parenthesis, stands the empty value.
        while True:
            text, is_word = self._peek()
            if is_word:
                values.add(text)
                self._at += 1
            elif text in (",", ")"):
                values.add("")
            else:
                raise SelectorError(f"found '{text}', expected: ',', or identifier")
            text, _ = self._next()
            if text == ")":
                return values
            if text != ",":
                raise SelectorError(f"found '{text}', expected: ',' or ')'")


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> LabelSelector:
    """A label selector from its text form, such as `app=web,tier in (a,b),!old`."""
    requirements = _Parser(text).parse()
    return LabelSelector(requirements) if requirements else EVERYTHING


class Expression(Protocol):
    """One of a LabelSelector object's match expressions."""

    @property
    def key(self) -> str | None: ...
    @property
    def operator(self) -> str | None: ...
    @property
    def values(self) -> Sequence[str] | None: ...


class SelectorObject(Protocol):
    """A LabelSelector as it stands in API objects."""

    @property
    def match_labels(self) -> Mapping[str, str] | None: ...
    @property
    def match_expressions(self) -> Sequence[Expression] | None: ...


_OBJECT_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def from_label_selector(selector: SelectorObject | None) -> LabelSelector:
    """A LabelSelector object's meaning: absent matches nothing, empty matches everything."""
    if not selector:
        return NOTHING
    requirements = [requirement(key, Operator.EQUALS, (value,)) for key, value in (selector.match_labels or {}).items()]
    for expression in selector.match_expressions or ():
        operator = _OBJECT_OPERATORS.get(expression.operator or "")
        if operator is None:
            raise SelectorError(f"{quote(expression.operator or '')} is not a valid label selector operator")
        requirements.append(requirement(expression.key or "", operator, expression.values or ()))
    return LabelSelector(requirements) if requirements else EVERYTHING


def from_labels(labels: Mapping[str, str] | None) -> LabelSelector:
    """The selector that wants each of the labels, unchecked: for maps that validation has already seen."""
    return LabelSelector(Requirement(key, Operator.EQUALS, (value,)) for key, value in (labels or {}).items())


def validate_labels(labels: Mapping[str, str] | None, path: Path) -> FieldErrors:
    """What is wrong with a map of labels."""
    errors: FieldErrors = []
    for key, value in (labels or {}).items():
        errors += [invalid(path, key, message) for message in check_qualified_name(key)]
        errors += [invalid(path, value, message) for message in check_label_value(value)]
    return errors


def validate_label_selector(
    selector: SelectorObject | None, path: Path, allow_invalid_values: bool = False
) -> FieldErrors:
    """What is wrong with a LabelSelector object; old objects may keep values that weren't checked in their day."""
    if not selector:
        return []
    errors = validate_labels(selector.match_labels, path.child("matchLabels"))
    for index, expression in enumerate(selector.match_expressions or ()):
        errors += _validate_expression(expression, path.child("matchExpressions").index(index), allow_invalid_values)
    return errors


def _validate_expression(expression: Expression, path: Path, allow_invalid_values: bool) -> FieldErrors:
    key, operator, values = expression.key or "", expression.operator or "", expression.values or ()
    errors: FieldErrors = []
    if operator in ("In", "NotIn"):
        if not values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(path.child("values"), detail))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(path.child("values"), detail))
    else:
        errors.append(invalid(path.child("operator"), operator, "not a valid selector operator"))
    errors += [invalid(path.child("key"), key, message) for message in check_qualified_name(key)]
    if not allow_invalid_values:
        for index, value in enumerate(values):
            found = check_label_value(value)
            errors += [invalid(path.child("values").index(index), value, message) for message in found]
    return errors
