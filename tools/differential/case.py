# SPDX-License-Identifier: Apache-2.0
"""Cases: short sequences of requests that one server answers in a namespace of their own."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from kubeloop.api.protobuf import encode_object

NAMESPACE = "{ns}"
# Stands for a value of the answer to an earlier step, such as {rv:0} for its resource version.
_REFERENCE = re.compile(r"\{(rv|uid|continue|name):(\d+)\}")
_METADATA_KEYS = {"rv": "resourceVersion", "uid": "uid", "continue": "continue", "name": "name"}
PROTOBUF = "application/vnd.kubernetes.protobuf"
# How long a server may take until what it watches itself (definitions, roles, policies) has an effect.
_WAIT_SECONDS = 10.0
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Step:
    """One request; `body` is a JSON value, or text that is sent as it is.

    A request with `awaited` is repeated until the server answers with this status.
    """

    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    awaited: int = 0

    def encoded_body(self) -> bytes | None:
        """Return the bytes to send; raises an exception if a protobuf message cannot have the values of the body."""
        if self.body is None:
            return None
        if self.headers.get("Content-Type") == PROTOBUF and isinstance(self.body, dict):
            return encode_object(self.body)
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


@dataclass(frozen=True, slots=True)
class Answer:
    """Response of a server: decoded body if it is JSON, text otherwise."""

    status: int
    body: Any
    warnings: tuple[str, ...] = ()
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class Case:
    """Steps with the seed that generated them."""

    name: str
    steps: tuple[Step, ...]
    cleanup: tuple[str, ...] = ()  # paths of objects outside of the namespace, deleted afterwards

    def to_json(self) -> dict[str, Any]:
        """Return the case as a JSON value, without empty fields."""
        steps = [
            {key: value for key, value in vars_of(step).items() if value not in (None, {}, 0)} for step in self.steps
        ]
        return {"name": self.name, "steps": steps, **({"cleanup": list(self.cleanup)} if self.cleanup else {})}


def vars_of(step: Step) -> dict[str, Any]:
    """Return the fields of a step by name."""
    return {
        "method": step.method,
        "path": step.path,
        "headers": step.headers,
        "body": step.body,
        "awaited": step.awaited,
    }


def fill(value: Any, namespace: str, answers: Sequence[Answer]) -> Any:
    """Replace the namespace and references to earlier answers in a JSON value."""
    if isinstance(value, dict):
        return {fill(key, namespace, answers): fill(one, namespace, answers) for key, one in value.items()}
    if isinstance(value, list):
        return [fill(one, namespace, answers) for one in value]
    if not isinstance(value, str):
        return value
    return _REFERENCE.sub(lambda match: _resolve(match, answers), value.replace(NAMESPACE, namespace))


def _resolve(match: re.Match[str], answers: Sequence[Answer]) -> str:
    index = int(match[2])
    body = answers[index].body if index < len(answers) else None
    metadata = body.get("metadata") if isinstance(body, dict) else None
    return str((metadata or {}).get(_METADATA_KEYS[match[1]], ""))


Send = Callable[[Step], Answer]


def run_case(send: Send, case: Case, namespace: str) -> list[Answer]:
    """Send the steps of a case to one server; returns an answer for each."""
    answers: list[Answer] = []
    for step in case.steps:
        filled = Step(
            step.method,
            fill(step.path, namespace, answers),
            fill(step.body, namespace, answers),
            fill(step.headers, namespace, answers),
            step.awaited,
        )
        answers.append(_send_awaited(send, filled, answers) if step.awaited else send(filled))
    for path in case.cleanup:
        send(Step("DELETE", fill(path, namespace, answers)))
    return answers


def _send_awaited(send: Send, step: Step, earlier: Sequence[Answer]) -> Answer:
    """Repeat a request until its status is the awaited one; once only if an earlier request was rejected."""
    deadline = time.monotonic() + _WAIT_SECONDS
    is_expected = all(0 < answer.status < HTTPStatus.BAD_REQUEST for answer in earlier)
    while True:
        answer = send(step)
        if answer.status == step.awaited or not is_expected or time.monotonic() > deadline:
            return answer
        time.sleep(_PAUSE_SECONDS)
