"""Cases: short sequences of requests that one server answers in a namespace of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

NAMESPACE = "{ns}"
# Stands for a value of the answer to an earlier step, such as {rv:0} for its resource version.
_REFERENCE = re.compile(r"\{(rv|uid|continue|name):(\d+)\}")
_METADATA_KEYS = {"rv": "resourceVersion", "uid": "uid", "continue": "continue", "name": "name"}


@dataclass(frozen=True, slots=True)
class Step:
    """One request; `body` is a JSON value, or text that is sent as it is."""

    method: str
    path: str
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    def encoded_body(self) -> bytes | None:
        """Return the bytes to send."""
        if self.body is None:
            return None
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
        steps = [{key: value for key, value in vars_of(step).items() if value not in (None, {})} for step in self.steps]
        return {"name": self.name, "steps": steps, **({"cleanup": list(self.cleanup)} if self.cleanup else {})}


def vars_of(step: Step) -> dict[str, Any]:
    """Return the fields of a step by name."""
    return {"method": step.method, "path": step.path, "headers": step.headers, "body": step.body}


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
        )
        answers.append(send(filled))
    for path in case.cleanup:
        send(Step("DELETE", fill(path, namespace, answers)))
    return answers
