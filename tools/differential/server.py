# SPDX-License-Identifier: Apache-2.0
"""Connections to a server under test, as its kubeconfig says."""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from kubeloop.api.protobuf import decode_object, is_known, open_envelope
from tools.differential.case import PROTOBUF, Answer, Step

_TIMEOUT_SECONDS = 60
_WATCH = re.compile(r"[?&]watch=(true|1)\b")


class ServerUnderTest:
    """One API server; every thread has a connection of its own."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        address = urlsplit(cluster["server"])
        self._host, self._port = address.hostname or "", address.port or 443
        self._tls = _tls_context(user, kubeconfig.parent)
        self._headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self._local = threading.local()

    def send(self, step: Step) -> Answer:
        """Send one request; a connection that the server has closed is opened again once."""
        try:
            body = step.encoded_body()
        except Exception as error:  # a body can have values of any wrong type
            return Answer(-1, f"not sent: {type(error).__name__}")
        for is_last in (False, True):
            connection = self._connection()
            try:
                return self._exchange(connection, step, body)
            except (http.client.HTTPException, OSError) as error:
                connection.close()
                if is_last:
                    return Answer(-1, f"no answer: {type(error).__name__}")
        raise AssertionError("unreachable")

    def get(self, path: str) -> Any:
        """Return the body of a read that must succeed."""
        answer = self.send(Step("GET", path))
        if answer.status != http.client.OK:
            raise RuntimeError(f"GET {path}: {answer.status} {answer.body}")
        return answer.body

    def _connection(self) -> http.client.HTTPSConnection:
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection(
                self._host, self._port, context=self._tls, timeout=_TIMEOUT_SECONDS
            )
            self._local.connection = connection
        return connection

    def _exchange(self, connection: http.client.HTTPSConnection, step: Step, body: bytes | None) -> Answer:
        connection.request(step.method, step.path, body, {**self._headers, **step.headers})
        response = connection.getresponse()
        raw = response.read()
        warnings = tuple(sorted(value for name, value in response.getheaders() if name.lower() == "warning"))
        content_type = response.getheader("Content-Type") or ""
        is_watch = _WATCH.search(step.path) is not None and response.status == http.client.OK
        return Answer(response.status, _decoded(raw, content_type, is_watch), warnings, content_type)


def _decoded(raw: bytes, content_type: str, is_watch: bool) -> Any:
    if content_type == PROTOBUF:
        return _from_protobuf(raw)
    if content_type == "application/yaml":
        return yaml.safe_load(raw)
    if is_watch and "json" in content_type:
        return [json.loads(line) for line in raw.splitlines()]
    try:
        return json.loads(raw)
    except ValueError:
        pass
    lines = raw.splitlines()
    try:
        return [json.loads(line) for line in lines] if len(lines) > 1 else raw.decode("utf-8", "replace")
    except ValueError:
        return raw.decode("utf-8", "replace")


def _from_protobuf(raw: bytes) -> Any:
    """Decode a message to JSON without empty values: some servers leave zeros out."""
    envelope = open_envelope(raw)
    if not is_known(envelope.api_version, envelope.kind):
        return repr(envelope)
    return _without_empty(decode_object(envelope.api_version, envelope.kind, envelope.raw))


def _without_empty(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_empty(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without_empty(one) for key, one in value.items()}
    return {key: one for key, one in kept.items() if one not in (None, "", 0, False, {}, [])}


def _named(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in items if item["name"] == name)


def _tls_context(user: dict[str, Any], folder: Path) -> ssl.SSLContext:
    """Return the context with the user's certificate; the server is on loopback and is not verified."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if "client-certificate" in user:
        context.load_cert_chain(folder / user["client-certificate"], folder / user["client-key"])
    elif "client-certificate-data" in user:
        with tempfile.NamedTemporaryFile() as file:
            for part in ("certificate", "key"):
                file.write(base64.b64decode(user[f"client-{part}-data"]) + b"\n")
            file.flush()
            context.load_cert_chain(file.name)
    return context
