# SPDX-License-Identifier: Apache-2.0
"""Golden cases: requests with the responses of a real kube-apiserver.

A file holds cases, a case holds steps, which run in order on one server. A step has `method` and `path`, optionally
`headers` and `body` (JSON, or text that is sent as it is), and `want`: what a real server answered, reduced to what a
client can rely on. `{uid:N}` and `{rv:N}` in a path or body stand for the uid and the resource version of step N's
object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
# The headers that are compared; others name instances or times.
_HEADERS = ("content-type", "cache-control", "x-content-type-options", "allow", "warning", "location", "retry-after")
# Those of most responses: they are recorded where they are missing or differ.
_USUAL = {"content-type": "application/json", "cache-control": "no-cache, private"}
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_REFERENCE = re.compile(r"\{(uid|rv):(\d+)\}")


def case_files() -> list[Path]:
    """The files of this folder that hold cases."""
    return sorted(FOLDER.glob("*.json"))


def reduced(status: int, headers: Mapping[str, str], raw: bytes) -> dict[str, Any]:
    """A response as it is compared: of objects only their kind and name, of a Status what it tells."""
    kept = {name: headers.get(name) for name in _HEADERS if headers.get(name) != _USUAL.get(name)}
    found: dict[str, Any] = {"status": status} | ({"headers": kept} if kept else {})
    try:
        body = json.loads(raw)
    except ValueError:
        is_text = headers.get("content-type", "").startswith("text/plain")
        return found | ({"text": raw.decode(errors="replace")} if raw and is_text else {})
    if not isinstance(body, dict):
        return found
    if raw.startswith(b"{\n") or not raw.endswith(b"\n"):
        found["layout"] = "indented" if raw.startswith(b"{\n") else "no newline"
    if body.get("kind") == "Status":
        told = {name: body[name] for name in ("reason", "message", "details") if name in body}
        return found | {"told": json.loads(_UID.sub("UID", json.dumps(told)))}
    return found | {"kind": body.get("kind", ""), "name": body.get("metadata", {}).get("name", "")}


def filled(value: Any, answers: list[Any]) -> Any:
    """A part of a step with references to earlier answers replaced."""
    if isinstance(value, dict):
        return {key: filled(inner, answers) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, answers) for inner in value]
    if not isinstance(value, str):
        return value

    def answer(match: re.Match[str]) -> str:
        meta = answers[int(match[2])]["metadata"]
        return str(meta["uid" if match[1] == "uid" else "resourceVersion"])

    return _REFERENCE.sub(answer, value)


def request_of(step: Mapping[str, Any], answers: list[Any]) -> tuple[str, str, dict[str, str], bytes | None]:
    """Method, path, headers and body of a step."""
    headers = {name.lower(): value for name, value in step.get("headers", {}).items()}
    body = filled(step.get("body"), answers)
    if body is not None and not isinstance(body, str):
        headers.setdefault("content-type", "application/json")
        body = json.dumps(body)
    return step["method"], filled(step["path"], answers), headers, None if body is None else body.encode()
