# SPDX-License-Identifier: Apache-2.0
"""Static pods of a URL, from a real server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from kubeloop.kubelet.config import static_pod_url
from kubeloop.kubelet.config.static_pod_url import PodURL, StaticPodURLSource

MANIFEST = "kind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: c, image: i}]}\n"
POD = MANIFEST.replace("NAME", "a")
LIST = '{"kind": "PodList", "items": [{"metadata": {"name": "b"}, "spec": {"containers": [{"name": "c"}]}}]}'


class PodServer:
    """Serves one body; `headers` are those of the last request."""

    def __init__(self) -> None:
        self.status, self.body, self.location = 200, POD, ""
        self.headers: list[tuple[str, str]] = []
        self.paths: list[str] = []
        served = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                served.headers = list(self.headers.items())
                served.paths.append(self.path)
                self.send_response(served.status)
                if served.location and self.path != served.location:
                    self.send_header("Location", served.location)
                self.end_headers()
                self.wfile.write(served.body.encode())

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/pods?x=1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[PodServer]:
    found = PodServer()
    yield found
    found.close()


class Source(StaticPodURLSource):
    """Source that counts changes."""

    def __init__(self, url: str) -> None:
        self.changes = 0
        super().__init__(PodURL(url, {"X-Key": ("1", "2")}, 20.0), self.count)

    def count(self) -> None:
        self.changes += 1

    def names(self) -> list[str] | None:
        asyncio.run(self.check())
        return None if self.pods is None else [pod.metadata.name for pod in self.pods]


def test_pods_are_read_and_changes_told(server: PodServer) -> None:
    source = Source(server.url)
    assert source.pods is None
    assert source.names() == ["a"]
    assert [value for name, value in server.headers if name == "X-Key"] == ["1", "2"]
    assert server.paths == ["/pods?x=1"]
    assert source.names() == ["a"]
    assert source.changes == 1
    server.body = LIST
    assert source.names() == ["b"]
    assert source.changes == 2


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (404, "", "/pods?x=1: 404 Not Found"),
        (500, POD, "/pods?x=1: 500 Internal Server Error"),
        (200, "{", "couldn't parse as single"),
        (200, "kind: Service", "it contains no Pod"),
        (200, "kind: Pod", "a pod needs a name and containers"),
        (200, "kind: PodList\nitems: [1]", "couldn't parse as single or multiple pods"),
        (200, "kind: PodList\nitems: 5", "couldn't parse as single or multiple pods"),
        (200, "kind: Pod\nmetadata: 5", "couldn't parse as single or multiple pods"),
        (200, "[1]", "it contains no Pod"),
    ],
)
def test_failures_are_logged_and_keep_the_pods(
    server: PodServer, caplog: pytest.LogCaptureFixture, status: int, body: str, problem: str
) -> None:
    caplog.set_level(logging.INFO)
    source = Source(server.url)
    assert source.names() == ["a"]
    server.status, server.body = status, body
    assert source.names() == ["a"]
    assert "Failed to read pods from URL" in caplog.text
    assert problem in caplog.text
    server.status, server.body = 200, POD.replace("a}", "n}")
    assert source.names() == ["n"]
    assert "Successfully read pods from URL" in caplog.text


def test_an_empty_body_means_no_pods(server: PodServer, caplog: pytest.LogCaptureFixture) -> None:
    source = Source(server.url)
    source.names()
    server.body = ""
    with caplog.at_level(logging.INFO):
        assert source.names() == []
    assert "zero-length data received from" in caplog.text


def test_a_server_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for url in ("http://127.0.0.1:1/", "ftp://127.0.0.1/", "http://127.0.0.1:port/"):
            assert Source(url).names() is None
    assert len(caplog.records) == 3


def test_repeated_failures_become_quiet(caplog: pytest.LogCaptureFixture) -> None:
    source = Source("http://127.0.0.1:1/")
    with caplog.at_level(logging.DEBUG, static_pod_url.__name__):
        for _ in range(6):
            source.names()
    levels = [one.levelname for one in caplog.records if one.name == static_pod_url.__name__]
    assert levels == ["INFO"] * 4 + ["DEBUG"] * 2


def test_redirects_are_followed(server: PodServer) -> None:
    server.status, server.location = 302, "/other"
    source = Source(server.url)
    assert source.names() is None, "the end of the redirects has no success"
    assert server.paths == ["/pods?x=1", "/other"]


def test_too_long_content_is_refused(
    server: PodServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(static_pod_url, "_MOST_BYTES", 10)
    with caplog.at_level(logging.INFO):
        assert Source(server.url).names() is None
    assert "the read limit is reached" in caplog.text
