# SPDX-License-Identifier: Apache-2.0
"""Our answers to the golden cases are those of a real kube-apiserver."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from kubeloop.http import Request
from tests.golden.cases import case_files, reduced, request_of
from tests.unit.apiserver.conftest import Api, ManualClock

CASES = [(file, case) for file in case_files() for case in json.loads(file.read_text())]


@pytest.mark.parametrize(
    "case", [case for _, case in CASES], ids=[f"{file.stem}-{case['name']}" for file, case in CASES]
)
def test_a_case_is_answered_as_by_a_real_server(case: dict[str, Any]) -> None:
    with asyncio.Runner() as runner:
        api = Api(runner, ManualClock())
        answers: list[Any] = []
        found: list[tuple[str, Any]] = []
        for step in case["steps"]:
            status, headers, raw = runner.run(_answer(api, *request_of(step, answers)))
            answers.append(json.loads(raw) if raw.startswith(b"{") else None)
            found.append((f"{step['method']} {step['path']}", reduced(status, headers, raw)))
        assert found == [(f"{step['method']} {step['path']}", step["want"]) for step in case["steps"]]


async def _answer(
    api: Api, method: str, path: str, headers: dict[str, str], body: bytes | None
) -> tuple[int, dict[str, str], bytes]:
    path, _, query = path.partition("?")
    request = Request(method, path, query, {"authorization": "Bearer admin", **headers})
    request.body = body or b""
    response = await api.server.handle(request)
    raw = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    kept: dict[str, str] = {}
    for name, value in response.headers:
        kept[name.lower()] = f"{kept[name.lower()]}, {value}" if name.lower() in kept else value
    if response.content_type:
        kept["content-type"] = response.content_type
    return response.status, kept, b"" if method == "HEAD" else raw
