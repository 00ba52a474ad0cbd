# SPDX-License-Identifier: Apache-2.0
"""URLs of webhooks that a client config may contain, and unexpected responses of webhooks."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from kubeloop.api.generated.admissionregistration_v1 import WebhookClientConfig
from kubeloop.api.meta.field_path import FieldPath
from kubeloop.api.validation.extensions.webhook_client import validate_client_config
from kubeloop.apiserver.admission.dynamic.webhooks.caller import rejection_error
from kubeloop.apiserver.aggregator.dialer import RemoteUnreachable
from kubeloop.apiserver.apiextensions.conversion.review import ConversionError, parse_conversion_response
from kubeloop.apiserver.webhook_client.client_config import WebhookClients


@dataclass
class Config:
    url: str
    ca_bundle: bytes = b""
    service: Any = None


def target_of(url: str) -> Any:
    lookup: Any = None
    return WebhookClients(lookup, Random(1)).client_for(Config(url))


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("https://hooks.example/a b", "hooks.example", "/a%20b"),
        ("https://hooks.example/a HTTP/1.1", "hooks.example", "/a%20HTTP/1.1"),
        ("https://hooks.example/%C3%BC/../x", "hooks.example", "/x"),
        ("https://hooks.example/\u00fc", "hooks.example", "/%C3%BC"),
        ("https://hooks.example:/x", "hooks.example:", "/x"),
    ],
)
def test_a_path_cannot_end_the_request_line(url: str, host: str, path: str) -> None:
    found = target_of(url)
    assert (found.http_client.host, found.path) == (host, path)


@pytest.mark.parametrize("port", ["99999", "65536", "100000000000000000000"])
def test_a_port_that_cannot_be_dialled_is_a_failed_call(port: str) -> None:
    """The failure policy applies; a write must not fail for a webhook whose failures are ignored."""
    found = target_of(f"https://hooks.example:{port}/")
    with pytest.raises(RemoteUnreachable, match=f"dial tcp: address {port}: invalid port"):
        asyncio.run(found.http_client.request("POST", "/", (), b"", 1))


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://hooks.example:\u0661/", 'invalid port ":\u0661" after host'),
        ("https://hooks.example/%zz", 'invalid URL escape "%zz"'),
        ("https://hooks.example/%2", 'invalid URL escape "%2"'),
    ],
)
def test_a_malformed_url_is_invalid(url: str, problem: str) -> None:
    (found,) = validate_client_config(WebhookClientConfig(url=url), FieldPath("clientConfig"))
    assert problem in found.message()


@pytest.mark.parametrize(("given", "code"), [(403, 403), (599, 599), (100000, 400), (200, 400), (-1, 400), ("4", 400)])
def test_a_code_that_is_no_error_is_a_bad_request(given: Any, code: int) -> None:
    assert rejection_error("hook", {"code": given, "message": "no"}).code == code


@pytest.mark.parametrize(
    "response", ['{"result": [1]}', '{"result": {"status": "Success"}, "convertedObjects": {"a": 1}}']
)
def test_a_conversion_response_of_another_shape_is_a_failure(response: str) -> None:
    body = f'{{"response": {response}}}'
    with pytest.raises(ConversionError, match="failed: "):
        parse_conversion_response(body.encode(), "", "v1beta1")
