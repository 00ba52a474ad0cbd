# SPDX-License-Identifier: Apache-2.0
"""Admission webhooks: reviews in, verdicts out, over TLS."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import jsonpatch
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubeloop.cli.pki.files import Pki, ensure_pki
from kubeloop.clock import SystemClock
from kubeloop.http import Request
from kubeloop.runtime.webhook.review import json_patch
from kubeloop.runtime.webhook.server import MAX_BODY, AdmissionDenied, Review, respond, serve_webhooks
from kubeloop.sim.loop import run_virtual
from tests.bounds import GIVE_UP_SECONDS


async def label(review: Review) -> Mapping[str, Any]:
    obj = review.object or {}
    return {**obj, "metadata": {**obj.get("metadata", {}), "labels": {"a/b": "c"}}}


async def refuse(review: Review) -> None:
    review.warnings.append("think again")
    raise AdmissionDenied(f"{review.user_info.username} may not", code=422, reason="Invalid")


async def content(_: Review) -> None: ...


async def crash(_: Review) -> None:
    raise KeyError("spec")


async def hang(_: Review) -> None:
    await asyncio.sleep(3600)


HOOKS = {"/label": label, "/refuse": refuse, "/content": content, "/crash": crash, "/hang": hang}


def review(**request: Any) -> bytes:
    request = {
        "uid": "u1",
        "operation": "CREATE",
        "object": {"kind": "Pod"},
        "userInfo": {"username": "ann"},
        **request,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


OLD = b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1beta1","request":{"uid":"1"}}'


def asked(path: str, body: bytes | None = None, method: str = "POST") -> tuple[int, Any]:
    """Status, and the verdict if there is one."""
    where, _, query = path.partition("?")
    request = Request(method, where, query)
    request.body = review() if body is None else body
    response = run_virtual(respond(HOOKS, request))
    answer = cast(bytes, response.body)
    return response.status, json.loads(answer)["response"] if answer[:1] == b"{" else answer.decode()


def test_hook_allows() -> None:
    assert asked("/content?timeout=10s") == (200, {"uid": "u1", "allowed": True})


def test_rejecting_hook_has_a_message() -> None:
    status = {"message": "ann may not", "code": 422, "reason": "Invalid"}
    assert asked("/refuse") == (
        200,
        {"uid": "u1", "allowed": False, "status": status, "warnings": ["think again"]},
    )


def test_mutated_object_becomes_a_patch() -> None:
    _, verdict = asked("/label")
    assert verdict["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(verdict["patch"])) == [
        {"op": "add", "path": "/metadata", "value": {"labels": {"a/b": "c"}}}
    ]


@pytest.mark.parametrize(
    ("path", "body", "method", "status"),
    [
        ("/crash", None, "POST", 500),
        ("/hang?timeout=2s", None, "POST", 500),
        ("/hang?timeout=nonsense", None, "POST", 500),
        ("/nowhere", None, "POST", 404),
        ("/label", None, "GET", 405),
        ("/label", b"{", "POST", 400),
        ("/label", b'{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}', "POST", 400),
        ("/label", OLD, "POST", 400),
        ("/healthz", b"", "GET", 200),
    ],
)
def test_errors_are_in_the_status(path: str, body: bytes | None, method: str, status: int) -> None:
    assert asked(path, body, method)[0] == status


_documents = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "~", "/", "~1"]), inner),
    max_leaves=8,
)
_objects = st.dictionaries(st.sampled_from(["a", "b", "~", "/"]), _documents)


@given(_objects, _objects)
@example({"a": [1]}, {"a": [True]})
@settings(max_examples=60)
def test_patch_transforms_one_object_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert json.dumps(jsonpatch.apply_patch(before, json_patch(before, after)), sort_keys=True) == json.dumps(
        after, sort_keys=True
    )


def test_equal_objects_need_no_patch() -> None:
    assert json_patch({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}) == []


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return ensure_pki(tmp_path_factory.mktemp("keys"), ["localhost", "127.0.0.1"], SystemClock().now())


def over_tls(pki: Pki, *requests: bytes) -> list[bytes]:
    """The first lines and bodies of the answers, all on one connection."""

    async def main() -> list[bytes]:
        trusting = ssl.create_default_context(cafile=str(pki.ca))
        async with (
            asyncio.timeout(GIVE_UP_SECONDS),
            serve_webhooks(HOOKS, *_pair(pki), host="127.0.0.1", port=0) as port,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
            answers = [await _exchange(reader, writer, one) for one in requests]
            writer.close()
            return answers

    return asyncio.run(main())


def _pair(pki: Pki) -> tuple[Path, Path]:
    return pki.serving_certificate, pki.serving_key


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
    return head.partition(b"\r")[0] + b" " + await reader.readexactly(length)


def post(path: str, body: bytes) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_reviews_are_answered_sequentially_on_a_connection(pki: Pki) -> None:
    first, second = over_tls(pki, post("/content", review()), post("/refuse", review(uid="u2")))
    assert first.startswith(b'HTTP/1.1 200 OK {"apiVersion"')
    assert b'"uid":"u2","allowed":false' in second


def test_a_body_that_is_too_large_is_refused(pki: Pki) -> None:
    (answer,) = over_tls(pki, post("/content", b" " * (MAX_BODY + 2**18)))
    assert answer.startswith(b"HTTP/1.1 413")


def test_close_does_not_wait_for_a_tls_handshake(pki: Pki) -> None:
    async def main() -> None:
        trusting = ssl.create_default_context(cafile=str(pki.ca))
        async with asyncio.timeout(GIVE_UP_SECONDS):
            async with serve_webhooks(HOOKS, *_pair(pki), host="127.0.0.1", port=0) as port:
                _, silent = await asyncio.open_connection("127.0.0.1", port)
                reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting)
                assert b" 200 OK" in await _exchange(reader, writer, post("/content", review()))
                writer.close()
            silent.close()

    asyncio.run(main())
