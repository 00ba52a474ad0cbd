# SPDX-License-Identifier: Apache-2.0
"""Records what a real kube-apiserver answers to the golden cases, in place.

    python -m tests.golden.record https://127.0.0.1:6443 TOKEN [FILE...]

The server should be a fresh one without controllers; every case starts from what earlier ones left behind.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.golden.cases import case_files, reduced, request_of


def record(server: str, token: str, path: Path) -> None:
    """Write the server's answers into the cases of a file."""
    cases = json.loads(path.read_text())
    for case in cases:
        answers: list[Any] = []
        for step in case["steps"]:
            status, headers, raw = _answer(server, token, *request_of(step, answers))
            answers.append(json.loads(raw) if raw.startswith(b"{") else None)
            step["want"] = reduced(status, headers, raw)
    path.write_text(dump(cases))


def dump(cases: list[dict[str, Any]]) -> str:
    """The text of a file: one step a line."""
    parts = []
    for case in cases:
        steps = ",\n  ".join(json.dumps(step, ensure_ascii=False) for step in case["steps"])
        parts.append(f'{{"name": {json.dumps(case["name"])}, "steps": [\n  {steps}\n]}}')
    return "[\n" + ",\n".join(parts) + "\n]\n"


def _answer(
    server: str, token: str, method: str, path: str, headers: dict[str, str], body: bytes | None
) -> tuple[int, dict[str, str], bytes]:
    unverified = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection(urlsplit(server).netloc, context=unverified, timeout=30)
    connection.putrequest(method, path, skip_accept_encoding=True)
    for name, value in {"authorization": f"Bearer {token}", **headers}.items():
        connection.putheader(name, value)
    if body is not None or method in ("POST", "PUT", "PATCH"):
        connection.putheader("content-length", str(len(body or b"")))
    connection.endheaders(body)
    response = connection.getresponse()
    raw = response.read()
    connection.close()
    return response.status, {name.lower(): value for name, value in response.getheaders()}, raw


if __name__ == "__main__":
    for file in map(Path, sys.argv[3:]) if sys.argv[3:] else case_files():
        record(sys.argv[1], sys.argv[2], file)
