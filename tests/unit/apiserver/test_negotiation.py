"""What a client's Accept header asks for, among what we can give."""

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
def test_json_is_given_to_all_who_take_it(accept: str) -> None:
    assert negotiate(accept) == PLAIN


@pytest.mark.parametrize("accept", [PROTOBUF, f"{PROTOBUF};stream=watch", f"text/html,{PROTOBUF};q=0.5"])
def test_protocol_buffers_are_given_to_those_who_take_nothing_else(accept: str) -> None:
    assert negotiate(accept) == ResponseFormat(protobuf=True)


def test_metadata_is_given_in_the_encoding_it_is_asked_for_in() -> None:
    assert negotiate(f"{PROTOBUF};{METADATA}") == ResponseFormat(convert="PartialObjectMetadata", protobuf=True)
    both = f"{PROTOBUF};{METADATA},application/json;{METADATA}"
    assert negotiate(both) == ResponseFormat(convert="PartialObjectMetadata")


@pytest.mark.parametrize("accept", [f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1", "text/html", f"{PROTOBUF};as=Pod;v=v1"])
def test_what_has_no_form_is_refused(accept: str) -> None:
    with pytest.raises(errors.NotAcceptable):
        negotiate(accept)


def test_a_table_falls_back_on_a_form_that_exists() -> None:
    assert negotiate(f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1,{PROTOBUF}") == ResponseFormat(protobuf=True)
