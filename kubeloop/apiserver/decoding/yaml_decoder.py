# SPDX-License-Identifier: Apache-2.0
"""YAML as sigs.k8s.io/yaml reads it: YAML 1.1 scalars, times as strings, keys as strings, alias bombs rejected.

Built from parser events with an explicit stack, so that neither nesting nor aliases can exhaust memory or stack.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

import msgspec
import yaml

from kubeloop.apiserver.decoding.fast_check import has_duplicate_keys
from kubeloop.apiserver.decoding.go_json import MAX_DEPTH, decode_text
from kubeloop.apiserver.decoding.value_limit import MAX_VALUES, too_many_values

_Loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_MAX_DEPTH: Final = 500
# Maximum number of copies that aliases may make in total.
_MAX_ALIASED: Final = 100_000
_CORE: Final = "tag:yaml.org,2002:"
_MERGE: Final = "<<"

_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_INT: Final = re.compile(r"[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]+|0|[1-9][0-9_]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_MAX_INT: Final = 2**64


def parse_yaml(body: bytes) -> tuple[Any, list[str]]:
    """Parse YAML (or JSON); return the document and warnings about duplicate keys. Raises ValueError."""
    try:
        plain = msgspec.json.decode(body)
        if not has_duplicate_keys(body, plain):
            return plain, []
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    return read_yaml(body)


def read_yaml(body: bytes) -> tuple[Any, list[str]]:
    """Parse the first document of a text; return it and the errors about duplicate keys. Raises ValueError."""
    builder = _Builder()
    try:
        loader = _Loader(decode_text(body))
        while loader.check_event() and not builder.done:
            builder.take(loader.get_event())
    except yaml.YAMLError as error:
        raise ValueError("yaml: " + _worded(error)) from None
    except RecursionError:
        raise ValueError("yaml: " + MAX_DEPTH) from None
    return builder.document, builder.repeated


def _worded(error: yaml.YAMLError) -> str:
    """Return a parser error with its line, counted as upstream's parser counts."""
    problem = (
        getattr(error, "problem", None) or getattr(error, "reason", None) or "unknown problem parsing YAML content"
    )
    marks = (getattr(error, "context_mark", None), getattr(error, "problem_mark", None))
    line = next((mark.line for mark in marks if mark is not None and mark.line), 0)
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    return f"line {line}: {problem}" if line else str(problem)


class _Frame:
    """List or map under construction; `key` is set while a map waits for its value."""

    def __init__(self, made: dict[str, Any] | list[Any], anchor: str | None) -> None:
        self.made = made
        self.anchor = anchor
        self.key: str | None = None
        self.merges: list[Any] = []


class _Builder:
    """Builds a document from parser events."""

    def __init__(self) -> None:
        self.document: Any = None
        self.done = False
        self.repeated: list[str] = []
        self.stack: list[_Frame] = []
        self.anchors: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}
        self.built = 0
        self.aliased = 0

    def take(self, event: Any) -> None:
        """Process one event; raises ValueError for an invalid document, RequestEntityTooLarge for a huge one."""
        match event:
            case yaml.ScalarEvent():
                value = scalar_value(event)
                if event.anchor:
                    self.anchors[event.anchor] = value
                    self.sizes[event.anchor] = 1
                self.add(value, event)
            case yaml.AliasEvent():
                self.add(self.alias(str(event.anchor)), event)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self.open(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self.close(event)
            case yaml.DocumentEndEvent():
                self.done = True

    def alias(self, anchor: str) -> Any:
        if anchor not in self.anchors:
            raise ValueError(f"yaml: unknown anchor '{anchor}' referenced")
        if any(frame.anchor == anchor for frame in self.stack):
            raise ValueError(f"yaml: anchor '{anchor}' value contains itself")
        self.aliased += self.sizes[anchor]
        self.built += self.sizes[anchor]
        if self.aliased > _MAX_ALIASED:
            raise ValueError("yaml: document contains excessive aliasing")
        return self.anchors[anchor]

    def open(self, event: Any) -> None:
        if len(self.stack) >= _MAX_DEPTH:
            raise ValueError("yaml: " + MAX_DEPTH)
        frame = _Frame([] if isinstance(event, yaml.SequenceStartEvent) else {}, event.anchor)
        if event.anchor:
            self.anchors[event.anchor] = frame.made
            self.sizes[event.anchor] = -self.built
        self.stack.append(frame)

    def close(self, event: Any) -> None:
        frame = self.stack.pop()
        if frame.anchor:
            self.sizes[frame.anchor] = max(1, self.built + self.sizes[frame.anchor])
        if isinstance(frame.made, dict):
            for merged in frame.merges:
                for key, value in merged.items():
                    frame.made.setdefault(key, value)
        self.add(frame.made, event)

    def add(self, value: Any, event: Any) -> None:
        """Add a finished value at the current position."""
        self.built += 1
        if self.built > MAX_VALUES:
            raise too_many_values()
        if not self.stack:
            self.document = value
            return
        frame = self.stack[-1]
        if isinstance(frame.made, list):
            frame.made.append(value)
        elif frame.key is None:
            frame.key = _MERGE if _is_merge(event) else self.key_text(value, frame.made, event)
            if _is_merge(event):
                frame.merges.append(None)
        else:
            self.add_member(frame, value)

    def add_member(self, frame: _Frame, value: Any) -> None:
        assert isinstance(frame.made, dict)
        assert frame.key is not None
        if frame.merges and frame.merges[-1] is None:
            frame.merges.pop()
            sources = value if isinstance(value, list) else [value]
            if not all(isinstance(one, dict) for one in sources):
                raise ValueError("yaml: map merge requires map or sequence of maps as the value")
            frame.merges.extend(sources)
        else:
            frame.made[frame.key] = value
        frame.key = None

    def key_text(self, key: Any, made: dict[str, Any], event: Any) -> str:
        """Return a key as JSON string; records duplicates. Raises ValueError for a null, list or map as key."""
        if isinstance(key, dict | list) or key is None:
            raise ValueError("error converting YAML to JSON: unsupported map key")
        text = key if isinstance(key, str) else _as_text(key)
        if text in made:
            shown = f'"{text}"' if isinstance(key, str) else text
            self.repeated.append(f"line {event.start_mark.line + 1}: key {shown} already set in map")
        return text


def _is_merge(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.value == _MERGE and bool(event.implicit[0])


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def scalar_value(event: Any) -> Any:
    """Return the value of a scalar: a plain one is resolved, a quoted one is text."""
    tag = event.tag
    if tag == _CORE + "binary":
        try:
            return base64.b64decode(event.value).decode("utf-8", "replace")
        except binascii.Error:
            raise ValueError("yaml: !!binary value contains invalid base64 data") from None
    if tag == _CORE + "str" or (not event.implicit[0] and tag in (None, "!")):
        return event.value
    if tag is None or tag.startswith(_CORE):
        return resolve_plain_scalar(event.value)
    return event.value


def resolve_plain_scalar(text: str) -> Any:
    """Resolve a plain YAML 1.1 scalar as upstream's parser does; times stay strings."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "-+.0123456789":
        number = _number(text)
        return text if number is None else number
    return text


def _number(text: str) -> int | float | None:
    if _INT.fullmatch(text) and len(text) < 100:
        found = _integer(text.replace("_", ""))
        return found if found is None or abs(found) < _MAX_INT else float(found)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return None if number in (float("inf"), float("-inf")) else number
    return None


def _integer(text: str) -> int | None:
    digits = text.lstrip("+-")
    sign = -1 if text.startswith("-") else 1
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    try:
        return sign * (int(digits, 8) if octal else int(digits, 0))
    except ValueError:
        return None
