# SPDX-License-Identifier: Apache-2.0
"""Property tests: objects of any schema round-trip through protobuf."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.api.features.optional_resources import DEFINITIONS as OFFERED
from kubeloop.api.kinds import DEFINITIONS
from kubeloop.api.protobuf import decode_object, encode_object, open_envelope
from kubeloop.api.protobuf.messages import Message
from kubeloop.api.protobuf.table import message_of, table
from kubeloop.api.schema import definitions
from tests.unit.api.protobuf.random_messages import sample, without_omitted, zero_object

_WATCH_EVENT = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"


@pytest.mark.parametrize("definition", [name for name in (*DEFINITIONS, *OFFERED) if name != _WATCH_EVENT])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_every_kind_round_trips(definition: str, seed: int) -> None:
    message, plain = message_of(definition), sample(definition, Random(seed))
    assert message.decode(message.encode(plain), {}) == without_omitted(definition, plain)


@pytest.mark.parametrize("definition", [name for name in (*DEFINITIONS, *OFFERED) if name != _WATCH_EVENT])
def test_a_zero_scalar_is_absent_unless_go_has_a_pointer_or_always_writes_it(definition: str) -> None:
    message, plain = message_of(definition), zero_object(definition)
    assert message.decode(message.encode(plain), {}) == without_omitted(definition, plain)


def test_a_later_zero_replaces_an_earlier_value() -> None:
    message = message_of("io.k8s.api.core.v1.ContainerPort")
    assert message.decode(message.encode({"hostPort": 80}) + message.encode({"hostPort": 0}), {}) == {}


@given(seed=st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_key_order_does_not_affect_the_encoding(seed: int) -> None:
    plain = {"apiVersion": "v1", "kind": "Pod", **sample("io.k8s.api.core.v1.Pod", Random(seed))}
    assert encode_object(plain) == encode_object(_reversed(plain))


def _reversed(plain: object) -> dict[str, object]:
    assert isinstance(plain, dict)
    return {key: _reversed(plain[key]) if isinstance(plain[key], dict) else plain[key] for key in reversed(plain)}


def test_envelope_has_kind_and_version() -> None:
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 0}}
    envelope = open_envelope(encode_object(document))
    assert (envelope.api_version, envelope.kind) == ("apps/v1", "Deployment")
    assert decode_object(*envelope) == document


@pytest.mark.parametrize("kind", ["Status", "DeleteOptions", "APIResourceList"])
def test_meta_types_are_known_in_every_group(kind: str) -> None:
    document = {"apiVersion": "apps/v1", "kind": kind}
    assert decode_object(*open_envelope(encode_object(document))) == document


def test_metadata_lists_are_encoded_without_a_published_schema() -> None:
    document = {
        "apiVersion": "meta.k8s.io/v1",
        "kind": "PartialObjectMetadataList",
        "metadata": {"resourceVersion": "7"},
        "items": [{"metadata": {"name": "a"}}],
    }
    assert decode_object(*open_envelope(encode_object(document))) == document


def test_every_type_with_fields_has_a_message() -> None:
    for definition, facts in definitions().items():
        if "properties" in facts:
            assert isinstance(message_of(definition), Message)


def test_field_numbers_of_a_message_are_unique() -> None:
    for definition, fields in table().items():
        numbers = [fact[0] for fact in fields.values()]
        assert len(set(numbers)) == len(numbers), definition
