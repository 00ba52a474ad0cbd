# SPDX-License-Identifier: Apache-2.0
"""Tests of a protobuf client: writes, reads, lists, watches and deletes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubeloop.api.protobuf import decode_object, encode_object, open_envelope
from kubeloop.http import StreamResponse
from tests.unit.apiserver.watch.test_watch import MemoryStream, WatchHarness, in_test_environment

MEDIA = "application/vnd.kubernetes.protobuf"
CONFIG_MAPS = "/api/v1/namespaces/shop/configmaps"


def config_map(name: str, **data: str) -> bytes:
    return encode_object({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})


def plain(body: bytes) -> dict[str, Any]:
    return decode_object(*open_envelope(body))


@pytest.fixture
def made(api):
    """An object that was written in protocol buffers, as the server answered."""
    answer = api.post(CONFIG_MAPS, config_map("a", k="v"), content_type=MEDIA, accept=MEDIA)
    assert answer.status == 201, answer.body
    return plain(answer.body)


def test_object_is_the_same_in_both_encodings(api, made):
    in_json = api.get(f"{CONFIG_MAPS}/a").body
    assert plain(api.get(f"{CONFIG_MAPS}/a", accept=MEDIA).body) == in_json == made


def test_list_has_items_and_version(api, made):
    found = plain(api.get(CONFIG_MAPS, accept=MEDIA).body)
    assert found == api.get(CONFIG_MAPS).body
    assert [item["metadata"]["name"] for item in found["items"]] == ["a"]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_metadata_can_be_read_alone(api, made, version):
    accept = f"{MEDIA};g=meta.k8s.io;v={version};as="
    one = plain(api.get(f"{CONFIG_MAPS}/a", accept=accept + "PartialObjectMetadata").body)
    assert one == {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": made["metadata"],
    }
    many = plain(api.get(CONFIG_MAPS, accept=accept + "PartialObjectMetadataList").body)
    assert [item["metadata"] for item in many["items"]] == [made["metadata"]]


def test_object_is_updated(api, made):
    answer = api.put(f"{CONFIG_MAPS}/a", config_map("a", k="w"), content_type=MEDIA, accept=MEDIA)
    assert plain(answer.body)["data"] == {"k": "w"}


def test_delete_options_are_decoded(api, made):
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": "another"}}
    path = f"{CONFIG_MAPS}/a"
    assert api.ask("DELETE", path, encode_object(options), content_type=MEDIA).status == 409
    options["preconditions"] = {"uid": made["metadata"]["uid"]}
    answer = api.ask("DELETE", path, encode_object(options), content_type=MEDIA, accept=MEDIA)
    assert (answer.status, plain(answer.body)["status"]) == (200, "Success")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"junk", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        (
            config_map("a"),
            'no kind "ConfigMap" is registered for version "v1" in scheme '
            '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"',
        ),
        (b"k8s\x00\x0a\x7f", "unexpected EOF"),
    ],
)
def test_invalid_options_are_rejected(api, made, body, why):
    answer = api.ask("DELETE", f"{CONFIG_MAPS}/a", body, content_type=MEDIA)
    assert (answer.status, answer.body["message"]) == (400, why)


def test_table_is_not_acceptable(api, made):
    assert api.get(CONFIG_MAPS, accept=f"{MEDIA};as=Table;g=meta.k8s.io;v=v1").status == 406


class FrameSink(MemoryStream):
    """A stream that keeps its events as (type, object)."""

    def write(self, data: bytes) -> None:
        while data:
            size, _, rest = data.partition(b"\r\n")
            chunk, data = rest[: int(size, 16)], rest[int(size, 16) + 2 :]
            self.events.append(_event(chunk))

    @property
    def seen(self) -> list[tuple[str, str]]:
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in self.events]


def _event(chunk: bytes) -> dict[str, Any]:
    """A frame has a length prefix, and its object is in an envelope."""
    assert int.from_bytes(chunk[:4], "big") == len(chunk) - 4
    kind_length = chunk[5]
    kind, rest = chunk[6 : 6 + kind_length], chunk[6 + kind_length :]
    return {"type": kind.decode(), "object": plain(rest[rest.index(b"k8s\x00") :])}


async def _watch(env: WatchHarness, query: str) -> FrameSink:
    response = await env.ask("GET", f"{CONFIG_MAPS}?watch=1&{query}", accept=f"{MEDIA};stream=watch")
    assert isinstance(response, StreamResponse)
    assert response.content_type == f"{MEDIA};stream=watch"
    sink = FrameSink()
    env.tasks.append(asyncio.create_task(response.run(sink)))
    await env.loop.settle()
    return sink


def test_watch_delivers_existing_objects_and_events():
    async def story(env: WatchHarness) -> None:
        await env.make("a")
        sink = await _watch(env, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
        assert sink.seen == [("ADDED", "a"), ("BOOKMARK", "")]
        await env.make("b")
        await env.ask("DELETE", f"{CONFIG_MAPS}/a")
        await env.loop.settle()
        assert sink.seen[2:] == [("ADDED", "b"), ("DELETED", "a")]

    in_test_environment(story)


def test_watches_in_both_encodings_are_separate():
    async def story(env: WatchHarness) -> None:
        in_frames, in_json = await _watch(env, "resourceVersion=0"), await env.watch("resourceVersion=0")
        await env.make("a")
        await env.loop.settle()
        assert in_frames.events == in_json.events
        assert in_frames.seen == [("ADDED", "a")]

    in_test_environment(story)


def test_watch_from_a_compacted_version_ends_with_an_error():
    async def story(env: WatchHarness) -> None:
        for name in "abc":
            await env.make(name)
        env.store.compact(env.store.revision)
        sink = await _watch(env, "resourceVersion=1")
        assert [(event["type"], event["object"]["code"]) for event in sink.events] == [("ERROR", 410)]

    in_test_environment(story)
