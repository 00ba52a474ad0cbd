# SPDX-License-Identifier: Apache-2.0
"""Tests of clients that send too much, too slowly or invalid data: rejected without affecting others."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.bounds import GIVE_UP_SECONDS
from tests.e2e.conftest import MakePlane
from tests.e2e.plane import Plane, config_map

MIB = 1 << 20


@contextmanager
def raw_connection(plane: Plane) -> Iterator[ssl.SSLSocket]:
    plain = socket.create_connection(("127.0.0.1", plane.port), timeout=GIVE_UP_SECONDS)
    with plane.tls.wrap_socket(plain, server_hostname="127.0.0.1") as made:
        yield made


def read_answer(connection: ssl.SSLSocket) -> bytes:
    """Return everything the server sends before it closes the connection."""
    said = b""
    try:
        while chunk := connection.recv(65536):
            said += chunk
    except (ConnectionError, ssl.SSLError):
        pass  # it may close the connection while the client is sending
    return said


def still_serves(plane: Plane) -> bool:
    return plane.is_running() and plane.call("GET", "/readyz").body == b"ok"


def test_a_body_over_three_mebibytes_is_too_large(plane: Plane, namespace: str) -> None:
    answer = plane.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map("one", large="x" * 3 * MIB))
    assert answer.status == 413
    assert (answer.json["kind"], answer.json["reason"]) == ("Status", "RequestEntityTooLarge")
    assert still_serves(plane)


def test_a_body_over_the_limit_without_a_length_is_too_large(plane: Plane, namespace: str) -> None:
    with raw_connection(plane) as connection:
        head = f"POST /api/v1/namespaces/{namespace}/configmaps HTTP/1.1\r\nHost: localhost\r\n"
        connection.sendall(f"{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        try:
            for _ in range(5):
                connection.sendall(b"100000\r\n" + b" " * MIB + b"\r\n")
        except OSError:
            pass  # it does not have to listen to the end
        said = read_answer(connection)
    assert said.startswith(b"HTTP/1.1 413 ")
    assert still_serves(plane)


def test_an_object_of_almost_the_limit_is_kept(plane: Plane, namespace: str) -> None:
    large = {"metadata": {"name": "one"}, "data": {"large": "x" * (MIB - 100)}}
    made = plane.create(f"/api/v1/namespaces/{namespace}/configmaps", large)
    assert len(made["data"]["large"]) == MIB - 100
    refused = plane.call("POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map("two", large="x" * (MIB + 1)))
    assert refused.status == 422
    assert "may not be more than 1048576 bytes" in refused.json["message"]


def test_a_head_that_is_too_large(plane: Plane) -> None:
    with raw_connection(plane) as connection:
        connection.sendall(b"GET /api HTTP/1.1\r\nHost: localhost\r\n")
        try:
            for number in range(80):
                connection.sendall(f"X-Header-{number}: {'x' * 32768}\r\n".encode())
            connection.sendall(b"\r\n")
        except OSError:
            pass
        said = read_answer(connection)
    assert said.startswith(b"HTTP/1.1 431 ")
    assert still_serves(plane)


@pytest.mark.parametrize("content_type", ["application/json", "application/yaml"])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_deep_bodies_are_bad_requests(plane: Plane, namespace: str, opening: bytes, content_type: str) -> None:
    closing = {b"[": b"]", b'{"a":': b"}"}[opening]
    document = b'{"metadata": {"name": "deep"}, "data": ' + opening * 100_000 + b"1" + closing * 100_000 + b"}"
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    answer = plane.call("POST", path, document, Content_Type=content_type)
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert still_serves(plane)


@pytest.mark.parametrize(
    "kind",
    [
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ],
)
def test_deep_patches_are_refused(plane: Plane, namespace: str, kind: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    plane.create(path, config_map("one"))
    document = b'{"data":' * 50_000 + b"1" + b"}" * 50_000
    answer = plane.call("PATCH", f"{path}/one?fieldManager=tests", document, Content_Type=kind)
    assert 400 <= answer.status < 500, answer.body
    assert answer.json["kind"] == "Status"
    assert still_serves(plane)


def test_a_yaml_bomb_is_refused(plane: Plane, namespace: str) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    answer = plane.call("POST", path, "\n".join(lines).encode(), Content_Type="application/yaml")
    assert answer.status == 400
    assert still_serves(plane)


def test_a_json_patch_with_too_many_steps_is_refused(plane: Plane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    plane.create(path, config_map("one", a="1"))
    steps = [{"op": "test", "path": "/data/a", "value": "1"}] * 10_001
    answer = plane.call("PATCH", f"{path}/one", steps, Content_Type="application/json-patch+json")
    assert answer.status == 413, answer.body


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\xff\xfe" * 100,
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /api HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /api HTTP/1.1\r\nHost: x\r\nBad Header: y\r\n\r\n",
        b"GET /\x00api HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_garbage_in_tls_is_a_bad_request(plane: Plane, garbage: bytes) -> None:
    with raw_connection(plane) as connection:
        connection.sendall(garbage)
        said = read_answer(connection)
    assert said == b"" or said.split(b" ")[1] in (b"400", b"404", b"405", b"505"), said[:200]
    assert still_serves(plane)


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", bytes(range(256)) * 16, b"\x16\x03\x01"])
def test_plaintext_on_the_tls_port_closes_the_connection(plane: Plane, garbage: bytes) -> None:
    with socket.create_connection(("127.0.0.1", plane.port), timeout=GIVE_UP_SECONDS) as connection:
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        try:
            while connection.recv(65536):
                pass
        except ConnectionError:
            pass
    assert still_serves(plane)


def test_half_open_and_slow_clients_do_not_block_others(plane: Plane) -> None:
    silent = [socket.create_connection(("127.0.0.1", plane.port), timeout=GIVE_UP_SECONDS) for _ in range(50)]
    try:
        with raw_connection(plane) as slow:
            for byte in b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":
                slow.sendall(bytes([byte]))
                if byte == 13:
                    assert still_serves(plane)
            assert read_answer(slow).startswith(b"HTTP/1.1 200 ")
        with raw_connection(plane) as left:
            left.sendall(b"POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
        assert still_serves(plane)
    finally:
        for connection in silent:
            connection.close()
    assert still_serves(plane)


def test_incomplete_request_times_out(make_plane: MakePlane, tmp_path: Path) -> None:
    flags = ("--store", "memory", "--cert-dir", str(tmp_path / "pki"), "--request-timeout", "1s")
    plane = make_plane(*flags, command="apiserver")
    plane.start()
    with raw_connection(plane) as connection:
        head = "POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
        said = read_answer(connection)
    assert said.startswith(b"HTTP/1.1 408 ")
    assert still_serves(plane)


def test_excess_concurrent_writes_get_429_with_retry_after(make_plane: MakePlane, tmp_path: Path) -> None:
    flags = ("--store", f"sqlite:{tmp_path}/store.db", "--cert-dir", str(tmp_path / "pki"))
    unfair = "--enable-priority-and-fairness=false"  # with it, an administrator never waits
    plane = make_plane(*flags, unfair, "--max-mutating-requests-inflight", "1", command="apiserver")
    plane.start()
    connections = [plane.connection() for _ in range(100)]
    for connection in connections:
        connection.connect()
    for number, connection in enumerate(connections):
        connection.request("POST", "/api/v1/namespaces", json.dumps({"metadata": {"name": f"n{number}"}}))
    answers = [connection.getresponse() for connection in connections]
    statuses = {answer.status for answer in answers}
    refused = next(answer for answer in answers if answer.status == 429)
    assert statuses == {201, 429}
    assert refused.headers["Retry-After"] == "1"
    assert json.loads(refused.read())["reason"] == "TooManyRequests"
    for connection in connections:
        connection.close()
    assert still_serves(plane)


def test_pipelined_requests_are_answered_in_order(plane: Plane) -> None:
    with raw_connection(plane) as connection:
        paths = ["/version", "/readyz", "/nowhere", "/api"]
        text = "".join(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n" for path in paths)
        closing = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        connection.sendall((text + closing).encode())
        said = read_answer(connection)
    assert re.findall(rb"HTTP/1.1 (\d+)", said) == [b"200", b"200", b"404", b"200", b"200"]


def test_without_credentials_only_health_and_version_are_open(plane: Plane) -> None:
    anonymous = ssl.create_default_context()
    anonymous.check_hostname, anonymous.verify_mode = False, ssl.CERT_NONE
    other = Plane(plane.folder)
    other.port, other._tls = plane.port, anonymous
    assert other.call("GET", "/readyz").status == 200
    assert other.call("GET", "/version").status == 200
    for method, path in (("GET", "/api/v1/pods"), ("POST", "/api/v1/namespaces"), ("GET", "/metrics")):
        answer = other.call(method, path)
        assert answer.status == 403, (path, answer.body)
        status = json.loads(answer.body)
        assert (status["kind"], status["reason"]) == ("Status", "Forbidden")
        assert "system:anonymous" in status["message"]


def test_certificate_of_another_ca_is_rejected(plane: Plane, make_plane: MakePlane) -> None:
    stranger = make_plane("--ephemeral")
    stranger.start()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(stranger.folder / "client-certificate.pem", stranger.folder / "client-key.pem")
    other = Plane(plane.folder)
    other.port, other._tls = plane.port, context
    with suppress(ssl.SSLError, ConnectionError):  # where it is refused in the handshake already
        assert other.call("GET", "/api/v1/pods").status == 401
    assert still_serves(plane)
