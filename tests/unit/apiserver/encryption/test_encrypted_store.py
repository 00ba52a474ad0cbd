# SPDX-License-Identifier: Apache-2.0
"""Tests of encryption at rest: plaintext for clients, ciphertext in the store, and missing keys."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kubeloop.api.errors import InternalError
from kubeloop.api.generated.core_v1 import ConfigMap, Secret
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import RESOURCES
from kubeloop.api.requests import MERGE_PATCH, Call
from kubeloop.apiserver.background.file_reloader import FileReloader
from kubeloop.apiserver.encryption.configuration import ResourceTransformers, read_configuration
from kubeloop.apiserver.encryption.store import EncryptedStore, resource_prefix_of
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.server import ApiServerConfig, RunningServer
from kubeloop.clock import SystemClock
from kubeloop.metrics import MetricRegistry
from kubeloop.store.memory import MemoryStore
from tests.unit.apiserver.encryption.test_transformers import keys, read

SECRETS, CONFIG_MAPS = (
    next(one for one in RESOURCES if (one.group, one.plural) == ("", plural)) for plural in ("secrets", "configmaps")
)
ADMIN = User("admin", ("system:masters",))
KEY = "/registry/secrets/default/one"


class Plane:
    """A server on a store that outlives it."""

    def __init__(self, below: MemoryStore) -> None:
        self.below = below
        self.metrics = MetricRegistry()

    async def serve(self, transformers: ResourceTransformers | None) -> InProcessTransport:
        self.store = EncryptedStore(self.below, transformers, self.metrics)
        app = await RunningServer(ApiServerConfig(), SystemClock()).start_without_port(self.store)
        return InProcessTransport(app, ADMIN)

    @property
    def stored(self) -> bytes:
        record = self.below.get(KEY)
        assert record is not None
        return record.value


def call(verb: Any, name: str = "one", **more: Any) -> Call:
    fields = {"resource": SECRETS, "namespace": "default", "name": name, **more}
    return Call(verb=verb, **fields)


def create(name: str = "one") -> Call:
    body = Secret(metadata=ObjectMeta(name=name), data={"word": b"swordfish"})
    return call("create", "", body=body)


def touch() -> Call:
    """A write that changes nothing."""
    return call("patch", body=b'{"stringData":{}}', patch_type=MERGE_PATCH)


Scenario = Callable[[Plane], Awaitable[None]]


def play(scenario: Scenario) -> None:
    async def run() -> None:
        below = MemoryStore()
        await below.start()
        await scenario(Plane(below))
        await below.close()

    asyncio.run(run())


def test_clients_see_plaintext_and_the_store_has_ciphertext(tmp_path: Path) -> None:
    rules = read(tmp_path, (["secrets"], [{"aesgcm": keys("a")}, {"identity": {}}]))

    async def scenario(plane: Plane) -> None:
        entry = await plane.serve(rules)
        watched = aiter(entry.watch(call("watch", "", options={"resourceVersion": "1"})))
        made = await entry.call(create())
        assert made.data == {"word": b"swordfish"}
        assert (await entry.call(call("get"))).data == {"word": b"swordfish"}
        listed = await entry.call(call("list", ""))
        assert [one.data for one in listed.items] == [{"word": b"swordfish"}]
        batch = await anext(watched)
        assert batch[0].object.data == {"word": b"swordfish"}
        assert plane.stored.startswith(b"k8s:enc:aesgcm:v1:a:")
        body = ConfigMap(metadata=ObjectMeta(name="plain"))
        await entry.call(call("create", "", resource=CONFIG_MAPS, body=body))
        plain = plane.below.get("/registry/configmaps/default/plain")
        assert plain is not None
        assert plain.value.startswith(b"{")

    play(scenario)


def test_repeated_reads_decrypt_once(tmp_path: Path) -> None:
    rules = read(tmp_path, (["secrets"], [{"aesgcm": keys("a")}]))

    async def scenario(plane: Plane) -> None:
        await (await plane.serve(rules)).call(create())
        await plane.serve(rules)
        assert plane.store.get(KEY) is plane.store.get(KEY)
        assert plane.store.range("/registry/secrets/").records[0] is plane.store.get(KEY)

    play(scenario)


def test_transformations_are_counted(tmp_path: Path) -> None:
    async def scenario(plane: Plane) -> None:
        entry = await plane.serve(read(tmp_path, (["secrets"], [{"aesgcm": keys("a")}])))
        await entry.call(create())
        plane.store.set_transformers(read(tmp_path, (["secrets"], [{"aesgcm": keys("b")}])))
        with pytest.raises(InternalError):
            await entry.call(call("get"))
        about = 'resource="secrets",status="{}",transformation_type="{}",transformer_prefix="k8s:enc:aesgcm:v1:"'
        lines = [line.rpartition(" ")[0] for line in plane.metrics.render().splitlines()]
        name = "apiserver_storage_transformation_operations_total"
        assert f"{name}{{{about.format('OK', 'to_storage')}}}" in lines
        assert f"{name}{{{about.format('Unknown', 'from_storage')}}}" in lines

    play(scenario)


def test_rotated_key_reads_old_secrets_and_a_no_op_write_reencrypts(tmp_path: Path) -> None:
    old = read(tmp_path, (["secrets"], [{"aescbc": keys("a")}]))
    new = read(tmp_path, (["secrets"], [{"aesgcm": keys("b")}, {"aescbc": keys("a")}]))

    async def scenario(plane: Plane) -> None:
        made = await (await plane.serve(old)).call(create())
        entry = await plane.serve(new)
        assert (await entry.call(call("get"))).data == {"word": b"swordfish"}
        touched = await entry.call(touch())
        assert touched.metadata.resource_version != made.metadata.resource_version
        assert plane.stored.startswith(b"k8s:enc:aesgcm:v1:b:")
        again = await entry.call(touch())
        assert again.metadata.resource_version == touched.metadata.resource_version

    play(scenario)


def test_missing_key_fails_one_secret_only(tmp_path: Path) -> None:
    old = read(tmp_path, (["secrets"], [{"aesgcm": keys("a")}]))
    new = read(tmp_path, (["secrets"], [{"aesgcm": keys("b")}]))

    async def scenario(plane: Plane) -> None:
        await (await plane.serve(old)).call(create())
        entry = await plane.serve(new)
        await entry.call(create("two"))
        with pytest.raises(InternalError) as raised:
            await entry.call(call("get"))
        why = "no matching key was found for the provided AES transformer"
        assert str(raised.value) == f"Internal error occurred: {why}"
        with pytest.raises(InternalError) as raised:
            await entry.call(call("list", ""))
        assert str(raised.value) == f'Internal error occurred: unable to transform key "{KEY}": {why}'
        with pytest.raises(InternalError):
            await entry.call(call("delete"))
        assert (await entry.call(call("get", "two"))).metadata.name == "two"
        assert (await entry.call(call("list", "", resource=CONFIG_MAPS))).items == ()

    play(scenario)


def test_server_without_encryption_reports_unreadable_objects(tmp_path: Path) -> None:
    rules = read(tmp_path, (["secrets"], [{"aesgcm": keys("a")}]))

    async def scenario(plane: Plane) -> None:
        await (await plane.serve(rules)).call(create())
        entry = await plane.serve(None)
        with pytest.raises(InternalError, match="identity transformer tried to read encrypted data"):
            await entry.call(call("get"))
        assert (await entry.call(create("two"))).data == {"word": b"swordfish"}

    play(scenario)


def test_all_resources_can_be_encrypted(tmp_path: Path) -> None:
    rules = read(tmp_path, (["*.*"], [{"aescbc": keys("a")}]))

    async def scenario(plane: Plane) -> None:
        entry = await plane.serve(rules)
        await entry.call(create())
        await entry.call(touch())
        await entry.call(call("delete"))
        assert (await entry.call(call("list", ""))).items == ()
        values = [one.value for one in plane.below.range("/registry/namespaces/").records]
        assert values
        assert all(value.startswith(b"k8s:enc:aescbc:v1:a:") for value in values)

    play(scenario)


def test_changed_file_is_reloaded_and_an_invalid_one_is_ignored(tmp_path: Path) -> None:
    rules = read(tmp_path, (["secrets"], [{"aesgcm": keys("a")}]))

    async def scenario(plane: Plane) -> None:
        entry = await plane.serve(rules)
        path = tmp_path / "encryption.yaml"
        reloading = FileReloader("x", [path], lambda _: plane.store.set_transformers(read_configuration(path)))
        await entry.call(create())
        read(tmp_path, (["secrets"], [{"aesgcm": keys("b", "a")}]))
        reloading.check()
        await entry.call(touch())
        assert plane.stored.startswith(b"k8s:enc:aesgcm:v1:b:")
        (tmp_path / "encryption.yaml").write_text("broken: [")
        reloading.check()
        (tmp_path / "encryption.yaml").unlink()
        reloading.check()
        assert (await entry.call(call("get"))).data == {"word": b"swordfish"}

    play(scenario)


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("/registry/secrets/default/one", "/registry/secrets/"),
        ("/registry/secrets/", "/registry/secrets/"),
        ("/registry/services/specs/default/a", "/registry/services/specs/"),
        ("/registry/flowers.example.com/gardens/default/eden", "/registry/flowers.example.com/gardens/"),
        ("/registry/minions/node", "/registry/minions/"),
    ],
)
def test_resource_prefix_of_a_key(key: str, place: str) -> None:
    assert resource_prefix_of(key) == place
