"""Whatever the schema allows comes back from protocol buffers as it went in."""

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
from tests.unit.api.protobuf.samples import sample

_WATCH_EVENT = "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent"


@pytest.mark.parametrize("definition", [name for name in (*DEFINITIONS, *OFFERED) if name != _WATCH_EVENT])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_an_object_of_every_kind_comes_back_as_it_was(definition: str, seed: int) -> None:
    message, plain = message_of(definition), sample(definition, Random(seed))
    assert message.read(message.write(plain), {}) == plain


@given(seed=st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_the_order_of_keys_does_not_show_in_the_bytes(seed: int) -> None:
    plain = {"apiVersion": "v1", "kind": "Pod", **sample("io.k8s.api.core.v1.Pod", Random(seed))}
    assert encode_object(plain) == encode_object(_reversed(plain))


def _reversed(plain: object) -> dict[str, object]:
    assert isinstance(plain, dict)
    return {key: _reversed(plain[key]) if isinstance(plain[key], dict) else plain[key] for key in reversed(plain)}


def test_the_envelope_carries_kind_and_version() -> None:
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 0}}
    envelope = open_envelope(encode_object(document))
    assert (envelope.api_version, envelope.kind) == ("apps/v1", "Deployment")
    assert decode_object(*envelope) == document


@pytest.mark.parametrize("kind", ["Status", "DeleteOptions", "APIResourceList"])
def test_the_types_of_meta_are_known_in_every_group(kind: str) -> None:
    document = {"apiVersion": "apps/v1", "kind": kind}
    assert decode_object(*open_envelope(encode_object(document))) == document


def test_lists_of_metadata_are_written_though_no_schema_is_published_for_them() -> None:
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


def test_no_two_fields_of_a_message_share_a_number() -> None:
    for definition, fields in table().items():
        numbers = [fact[0] for fact in fields.values()]
        assert len(set(numbers)) == len(numbers), definition
