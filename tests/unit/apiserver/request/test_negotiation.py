# SPDX-License-Identifier: Apache-2.0
"""Tests of content negotiation by the Accept header."""

from __future__ import annotations

import pytest

from kubeloop.api import errors
from kubeloop.apiserver.request.negotiation import PLAIN, ResponseFormat, negotiate

PROTOBUF = "application/vnd.kubernetes.protobuf"
METADATA = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@pytest.mark.parametrize(
    "accept",
    [
        "",
        "*/*",
        "application/json",
        f"{PROTOBUF},application/json",
        f"{PROTOBUF}, */*",
        f"application/json;q=0.1,{PROTOBUF}",
    ],
)
def test_json_is_preferred(accept: str) -> None:
    assert negotiate(accept) == PLAIN


@pytest.mark.parametrize("accept", [PROTOBUF, f"{PROTOBUF};stream=watch", f"text/html,{PROTOBUF};q=0.5"])
def test_protobuf_is_used_if_it_is_the_only_accepted_type(accept: str) -> None:
    assert negotiate(accept) == ResponseFormat(protobuf=True)


def test_metadata_has_the_requested_encoding() -> None:
    assert negotiate(f"{PROTOBUF};{METADATA}") == ResponseFormat(convert="PartialObjectMetadata", protobuf=True)
    both = f"{PROTOBUF};{METADATA},application/json;{METADATA}"
    assert negotiate(both) == ResponseFormat(convert="PartialObjectMetadata")


@pytest.mark.parametrize("accept", [f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1", "text/html", f"{PROTOBUF};as=Pod;v=v1"])
def test_unsupported_form_is_rejected(accept: str) -> None:
    with pytest.raises(errors.NotAcceptable):
        negotiate(accept)


def test_table_falls_back_to_an_available_form() -> None:
    assert negotiate(f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1,{PROTOBUF}") == ResponseFormat(protobuf=True)
