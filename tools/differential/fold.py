# SPDX-License-Identifier: Apache-2.0
"""Folding: replaces values that differ between two equal servers (times, identities, allocated numbers)."""

from __future__ import annotations

import json
import re
from typing import Any

from tools.differential.case import Answer

_TIMES = (
    *("creationTimestamp", "deletionTimestamp", "expirationTimestamp", "firstTimestamp", "lastTimestamp", "time"),
    *("eventTime", "startTime", "renewTime", "acquireTime", "lastHeartbeatTime", "lastProbeTime"),
    *("lastTransitionTime", "lastUpdateTime"),
)
_FOLDED_KEYS = {
    **dict.fromkeys(_TIMES, "TIME"),
    "uid": "UID",
    "resourceVersion": "REVISION",
    "token": "TOKEN",
    "continue": "CONTINUE",
    "healthCheckNodePort": "PORT",
    "nodePort": "PORT",
    "serverAddress": "ADDRESS",
    "clusterIP": "ADDRESS",
    "clusterIPs": "ADDRESS",
}
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_KEPT_VALUES = (None, "", "0", 0, "None")
_PATTERNS = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"kube-api-access-[a-z0-9]{5}"), "kube-api-access-SUFFIX"),
    (re.compile(r"0x[0-9a-f]{6,}"), "POINTER"),
    (re.compile(r'(resourceVersion\\*":\\*")\d+'), r"\1REVISION"),
    (re.compile(r"\b10\.96\.\d+\.\d+\b"), "ADDRESS"),  # of the range that both servers allocate from
    (re.compile(r"(too old resource version: )\d+ \(\d+\)"), r"\1REVISION"),
    (re.compile(r"(the ResourceVersion in (?:the precondition|record) \()\d+\)"), r"\1REVISION)"),
    (re.compile(r"(Too large resource version: )\d+, current: \d+"), r"\1REVISION"),
    # The path of upstream's source depends on its build.
    (re.compile(r'in scheme (\\*)"[^"]*?(?=pkg/)'), r'in scheme \1"'),
    # Generated names in messages, after the prefixes that cases use.
    (re.compile(r"\b(g-|G-|x{20,})[a-z0-9]{5}\b"), r"\1SUFFIX"),
)
_DUMP = re.compile(r'"\{(?:[^"\\]|\\.)*\}"')
# A value that an error shows: Go prints the fields of a structure in their order in the source.
_SHOWN_VALUE = re.compile(r"value: (?=[{\[])")
_AGE = re.compile(r"^(\d+[smhd])+$|^<invalid>$")


def fold_answer(answer: Answer, namespace: str) -> Answer:
    """Return the answer in the form in which equal servers agree."""
    warnings = tuple(fold(one, namespace) for one in answer.warnings)
    body = answer.body
    if isinstance(body, list):
        body = [event for event in body if not _is_periodic_bookmark(event)]
    return Answer(answer.status, fold(body, namespace), warnings, answer.content_type)


def _is_periodic_bookmark(event: Any) -> bool:
    """Return True for a bookmark that depends on time: any but the one after the initial events."""
    if not isinstance(event, dict) or event.get("type") != "BOOKMARK":
        return False
    metadata = (event.get("object") or {}).get("metadata") or {}
    return _INITIAL_EVENTS_END not in (metadata.get("annotations") or {})


def fold(value: Any, namespace: str, key: str = "") -> Any:
    """Fold one JSON value; `key` is the name of the field that holds it."""
    if isinstance(value, dict):
        return _fold_object(value, namespace)
    if isinstance(value, list):
        return [fold(one, namespace, key) for one in value]
    if key in _FOLDED_KEYS and value not in _KEPT_VALUES:
        return _FOLDED_KEYS[key]
    if not isinstance(value, str):
        return value
    text = value.replace(namespace, "NAMESPACE")
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    if key == "cells" and _AGE.match(text):
        return "AGE"
    text = _fold_shown_values(_DUMP.sub(_fold_dump, text))
    # Upstream appends dumps of Go structures to some messages.
    return text.split("\n", maxsplit=1)[0] if key == "message" else text


def _fold_dump(match: re.Match[str]) -> str:
    """Sort the keys of a dumped object: their order is that of Go's structures."""
    try:
        return json.dumps(json.dumps(json.loads(json.loads(match[0])), sort_keys=True))
    except ValueError:
        return match[0]


def _fold_shown_values(text: str) -> str:
    """Sort the keys of values that an error shows as JSON."""
    parts, end = [], 0
    for match in _SHOWN_VALUE.finditer(text):
        if match.end() < end:
            continue
        try:
            value, after = json.JSONDecoder().raw_decode(text, match.end())
        except ValueError:
            continue
        parts += [text[end : match.end()], json.dumps(value, sort_keys=True)]
        end = after
    return "".join(parts) + text[end:]


def _fold_object(value: dict[str, Any], namespace: str) -> dict[str, Any]:
    folded = {key: fold(one, namespace, key) for key, one in value.items()}
    if isinstance(columns := folded.get("columnDefinitions"), list):
        folded["columnDefinitions"] = [{**one, "description": ""} for one in columns]  # prose, not compared
    prefix = folded.get("generateName")
    if isinstance(prefix, str) and prefix and str(folded.get("name", "")).startswith(prefix):
        folded["name"] = f"{prefix}SUFFIX"
    for name in ("resourceRules", "nonResourceRules"):
        # Upstream lists bindings from a Go map.
        if isinstance(rules := folded.get(name), list):
            rules.sort(key=lambda one: json.dumps(one, sort_keys=True))
    if isinstance(causes := folded.get("causes"), list):
        # Upstream iterates over Go maps, in random order.
        causes.sort(key=lambda one: [str(one.get(name)) for name in ("field", "reason", "message")])
    return folded
