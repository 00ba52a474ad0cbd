"""A server whose secrets lie encrypted: what clients see, what lies in the store, what happens without a key."""

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
from kubeloop.apiserver.encryption.configuration import ResourceTransformers
from kubeloop.apiserver.encryption.reloading import EncryptionConfigReloader
from kubeloop.apiserver.encryption.store import EncryptedStore, resource_prefix_of
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.server import ApiServerConfig, RunningServer
from kubeloop.clock import SystemClock
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

    async def serve(self, transformers: ResourceTransformers | None) -> InProcessTransport:
        self.store = EncryptedStore(self.below, transformers)
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


def test_clients_see_what_they_wrote_and_the_store_does_not(tmp_path: Path) -> None:
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


def test_reading_twice_decrypts_once(tmp_path: Path) -> None:
    rules = read(tmp_path, (["secrets"], [{"aesgcm": keys("a")}]))

    async def scenario(plane: Plane) -> None:
        await (await plane.serve(rules)).call(create())
        await plane.serve(rules)
        assert plane.store.get(KEY) is plane.store.get(KEY)
        assert plane.store.range("/registry/secrets/").records[0] is plane.store.get(KEY)

    play(scenario)


def test_what_goes_in_and_out_is_counted(tmp_path: Path) -> None:
    async def scenario(plane: Plane) -> None:
        entry = await plane.serve(read(tmp_path, (["secrets"], [{"aesgcm": keys("a")}])))
        await entry.call(create())
        plane.store.use(read(tmp_path, (["secrets"], [{"aesgcm": keys("b")}])))
        with pytest.raises(InternalError):
            await entry.call(call("get"))
        about = 'resource="secrets",transformation_type="{}",transformer_prefix="k8s:enc:aesgcm:v1:",status="{}"'
        lines = [line.rpartition(" ")[0] for line in plane.store.operations.lines()]
        name = "apiserver_storage_transformation_operations_total"
        assert f"{name}{{{about.format('to_storage', 'OK')}}}" in lines
        assert f"{name}{{{about.format('from_storage', 'Unknown')}}}" in lines

    play(scenario)


def test_after_a_rotation_old_secrets_are_read_and_a_write_that_changes_nothing_encrypts_anew(tmp_path: Path) -> None:
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


def test_without_its_key_a_secret_is_an_error_of_its_own_and_others_are_unharmed(tmp_path: Path) -> None:
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


def test_a_server_that_knows_of_no_encryption_says_so_instead_of_serving_what_it_cannot_read(tmp_path: Path) -> None:
    rules = read(tmp_path, (["secrets"], [{"aesgcm": keys("a")}]))

    async def scenario(plane: Plane) -> None:
        await (await plane.serve(rules)).call(create())
        entry = await plane.serve(None)
        with pytest.raises(InternalError, match="identity transformer tried to read encrypted data"):
            await entry.call(call("get"))
        assert (await entry.call(create("two"))).data == {"word": b"swordfish"}

    play(scenario)


def test_everything_can_be_encrypted_and_the_server_still_works(tmp_path: Path) -> None:
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


def test_a_changed_file_is_read_again_and_a_broken_one_is_not(tmp_path: Path) -> None:
    rules = read(tmp_path, (["secrets"], [{"aesgcm": keys("a")}]))

    async def scenario(plane: Plane) -> None:
        entry = await plane.serve(rules)
        reloading = EncryptionConfigReloader(tmp_path / "encryption.yaml", plane.store)
        await entry.call(create())
        read(tmp_path, (["secrets"], [{"aesgcm": keys("b", "a")}]))
        reloading.look()
        await entry.call(touch())
        assert plane.stored.startswith(b"k8s:enc:aesgcm:v1:b:")
        (tmp_path / "encryption.yaml").write_text("broken: [")
        reloading.look()
        (tmp_path / "encryption.yaml").unlink()
        reloading.look()
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
def test_a_key_tells_whose_it_is(key: str, place: str) -> None:
    assert resource_prefix_of(key) == place
