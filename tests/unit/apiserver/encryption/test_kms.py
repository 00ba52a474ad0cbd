# SPDX-License-Identifier: Apache-2.0
"""Encryption by a KMS plugin, which is a process that the test starts."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml

from kubeloop.api.generated.core_v1 import Secret
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import RESOURCES
from kubeloop.api.requests import Call
from kubeloop.apiserver.encryption.configuration import EncryptionConfigError, read_configuration
from kubeloop.apiserver.encryption.kms.client import KmsClient, KmsError
from kubeloop.apiserver.encryption.kms.envelope_metrics import EnvelopeMetrics, key_hash
from kubeloop.apiserver.encryption.kms.messages import (
    HKDF_SEED,
    DataKeySource,
    InvalidMessage,
    decode_object,
    encode_object,
)
from kubeloop.apiserver.encryption.kms.provider import DerivedKeyCipher, KmsProvider, UnknownDataKey
from kubeloop.apiserver.encryption.providers import DecryptionError, EncryptionError
from kubeloop.apiserver.encryption.store import EncryptedStore
from kubeloop.apiserver.inprocess.transport import InProcessTransport
from kubeloop.apiserver.request.context import User
from kubeloop.apiserver.server import ApiServerConfig, start_server
from kubeloop.clock import SystemClock
from kubeloop.http import Request
from kubeloop.metrics import MetricRegistry
from kubeloop.store.memory import MemoryStore
from tests.unit.apiserver.conftest import ManualClock

SECRETS = next(one for one in RESOURCES if one.plural == "secrets")
KEY = "/registry/secrets/default/one"
ROOT = Path(__file__).parents[4]


class Plugin:
    """The running plugin."""

    def __init__(self, folder: Path) -> None:
        self.socket = str(folder / "kms.sock")
        script = Path(__file__).with_name("kms_plugin.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), self.socket],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        )
        assert self._line() == "ready"

    def tell(self, command: str) -> None:
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        assert self._line() == "done"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def _line(self) -> str:
        return self._process.stdout.readline().strip()


@pytest.fixture
def plugin(tmp_path):
    started = Plugin(tmp_path)
    yield started
    started.stop()


@pytest.fixture
def provider_of(plugin):
    def make(clock=None, registry=None):
        clock = clock or ManualClock()
        metrics = EnvelopeMetrics(registry or MetricRegistry(), clock, "some server")
        client = KmsClient(plugin.socket, 10.0, clock, partial(metrics.observe_call, "mykms"))
        return KmsProvider("mykms", client, clock, metrics)

    return make


def test_values_are_encrypted_with_a_seed_of_the_plugin(provider_of):
    async def main():
        provider = provider_of()
        await provider.start()
        assert provider.problem == ""
        sealed = provider.encrypt(b"swordfish", KEY.encode())
        found = decode_object(sealed)
        assert (found.source.type, found.source.key_id) == (HKDF_SEED, "key-1")
        assert found.source.annotations == (("local-kek.kms.example.com", b"x"),)
        assert len(found.data) == 32 + 12 + len(b"swordfish") + 16
        assert provider.decrypt(sealed, KEY.encode()) == b"swordfish"
        with pytest.raises(DecryptionError, match="message authentication failed"):
            provider.decrypt(sealed, b"elsewhere")
        assert provider.encrypt(b"swordfish", KEY.encode()) != sealed
        await provider.close()

    asyncio.run(main())


def test_new_key_of_the_plugin_makes_old_values_stale_but_readable(provider_of, plugin):
    async def main():
        provider = provider_of()
        await provider.start()
        old = provider.encrypt(b"x", b"")
        assert not provider.is_stale(old)
        plugin.tell("key key-number-2")
        await provider.probe()
        assert provider.is_stale(old)
        assert decode_object(provider.encrypt(b"x", b"")).source.key_id == "key-number-2"
        assert provider.decrypt(old, b"") == b"x"
        await provider.close()

    asyncio.run(main())


def test_another_server_decrypts_the_seed_by_the_plugin(provider_of):
    async def main():
        first, second = provider_of(), provider_of()
        await first.start()
        await second.start()
        sealed = first.encrypt(b"x", b"")
        with pytest.raises(UnknownDataKey):
            second.decrypt(sealed, b"")
        await second.resolve([second.unknown_source(sealed)])
        assert second.decrypt(sealed, b"") == b"x"
        assert second.unknown_source(sealed) is None
        for one in (first, second):
            await one.close()

    asyncio.run(main())


def test_writes_stop_three_minutes_after_the_last_good_probe(provider_of, plugin):
    async def main():
        clock = ManualClock()
        provider = provider_of(clock)
        await provider.start()
        old = provider.encrypt(b"x", b"")
        plugin.tell("health ill")
        await provider.probe()
        assert "got unexpected healthz status: ill" in provider.problem
        plugin.tell("health refuse")
        clock.advance(181)
        await provider.probe()
        assert "go away" in provider.problem
        with pytest.raises(EncryptionError, match="expired at"):
            provider.encrypt(b"x", b"")
        assert provider.decrypt(old, b"") == b"x"
        plugin.tell("health ok")
        await provider.probe()
        assert provider.problem == ""
        provider.encrypt(b"x", b"")
        await provider.close()

    asyncio.run(main())


def test_data_keys_and_calls_of_the_plugin_are_counted(provider_of):
    async def main():
        registry = MetricRegistry()
        provider, clock = provider_of(registry=registry), ManualClock()
        await provider.start()
        sealed = provider.encrypt(b"x", KEY.encode())
        provider.decrypt(sealed, KEY.encode())
        provider.decrypt(sealed, KEY.encode())
        await provider.close()
        lines = registry.render().splitlines()
        envelope, storage = "apiserver_envelope_encryption_", "apiserver_storage_"
        key = f'apiserver_id_hash="{key_hash("some server")}",key_id_hash="{key_hash("key-1")}",provider_name="mykms"'
        for use, times in (("to_storage", 1), ("from_storage", 2)):
            assert f'{envelope}key_id_hash_total{{{key},transformation_type="{use}"}} {times}' in lines
        assert any(one.startswith(f"{envelope}key_id_hash_last_timestamp_seconds{{{key}") for one in lines)
        status = next(one for one in lines if one.startswith(f"{envelope}key_id_hash_status_last_timestamp_seconds{{"))
        assert float(status.split()[-1]) == clock.now().timestamp()
        assert f'{envelope}dek_source_cache_size{{provider_name="mykms"}} 1' in lines
        for method in ("Status", "Encrypt"):
            call = f'grpc_status_code="OK",method_name="/v2.KeyManagementService/{method}",provider_name="mykms"'
            assert f"{envelope}kms_operations_latency_seconds_count{{{call}}} 1" in lines
        assert f"{storage}data_key_generation_duration_seconds_count 1" in lines
        assert f"{storage}data_key_generation_failures_total 0" in lines
        assert f"{storage}envelope_transformation_cache_misses_total 0" in lines
        other = provider_of(registry=registry)
        await other.start()
        await other.resolve([decode_object(sealed).source])
        await other.close()
        assert f"{storage}envelope_transformation_cache_misses_total 1" in registry.render().splitlines()

    asyncio.run(main())


def test_missing_plugin_is_an_error(tmp_path):
    async def main():
        registry, clock = MetricRegistry(), ManualClock()
        metrics = EnvelopeMetrics(registry, clock)
        client = KmsClient(str(tmp_path / "none"), 1.0, clock, partial(metrics.observe_call, "mykms"))
        with pytest.raises(KmsError, match="no such file or directory"):
            await client.status()
        assert (
            'kms_operations_latency_seconds_count{grpc_status_code="Unavailable",'
            'method_name="/v2.KeyManagementService/Status",provider_name="mykms"} 1'
        ) in registry.render()
        provider = KmsProvider("mykms", client, clock, metrics)
        await provider.start()
        assert provider.problem.startswith("kmsv2 Provider mykms is not healthy, error: failed to perform status")
        with pytest.raises(EncryptionError):
            provider.encrypt(b"x", b"")
        await provider.close()

    asyncio.run(main())


def test_stored_form_is_upstreams():
    """The bytes are those of protobuf's own encoder for upstream's message."""
    source = DataKeySource(HKDF_SEED, b"dek", "id", (("a.b", b"c"),))
    stored = encode_object(source, b"data")
    assert stored == b"\x0a\x04data\x12\x02id\x1a\x03dek\x22\x08\x0a\x03a.b\x12\x01c\x28\x01"
    assert decode_object(stored) == (source, b"data")


@pytest.mark.parametrize(
    ("source", "data", "told"),
    [
        (DataKeySource(7, b"d", "id"), b"x", "unknown encryptedDEKSourceType: 7"),
        (DataKeySource(1, b"d", "id"), b"", "encrypted data is empty"),
        (DataKeySource(1, b"", "id"), b"x", "encrypted DEK source is empty"),
        (DataKeySource(1, b"d" * 1025, "id"), b"x", "1025 bytes, which exceeds the max size of 1024"),
        (DataKeySource(1, b"d", ""), b"x", "failed to validate key id: keyID is empty"),
        (DataKeySource(1, b"d", "i" * 1025), b"x", "keyID is 1025 bytes, which exceeds the max size of 1024"),
        (DataKeySource(1, b"d", "id", (("x", b""),)), b"x", "failed to validate annotations"),
        (DataKeySource(1, b"d", "id", (("a.b", b"x" * 32768),)), b"x", "total size of annotations is 32771"),
    ],
)
def test_invalid_stored_values_are_refused(source, data, told):
    with pytest.raises(InvalidMessage, match=told):
        decode_object(encode_object(source, data))
    with pytest.raises(InvalidMessage):
        decode_object(b"\xff\xff")


def test_keys_are_derived_as_upstream_derives_them():
    """HKDF-SHA256 expand (RFC 5869) of the seed, with the first 32 bytes as info."""
    import hashlib
    import hmac

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    seed = bytes(range(32))
    sealed = DerivedKeyCipher(seed).encrypt(b"x", b"path")
    info, nonce, body = sealed[:32], sealed[32:44], sealed[44:]
    key = hmac.digest(seed, info + b"\x01", hashlib.sha256)
    assert AESGCM(key).decrypt(nonce, body, b"path") == b"x"
    with pytest.raises(ValueError, match="invalid seed length 31"):
        DerivedKeyCipher(seed[:31])
    with pytest.raises(DecryptionError):
        DerivedKeyCipher(seed).decrypt(b"short", b"")


def configuration(tmp_path, kms, *more):
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "EncryptionConfiguration",
        "resources": [{"resources": ["secrets"], "providers": [{"kms": kms}, *more, {"identity": {}}]}],
    }
    path = tmp_path / "encryption.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": ""}, "kms.name: Required value: name is a mandatory field for a provider"),
        ({"name": "a:b"}, "invalid KMS provider name a:b, must not contain ':'"),
        ({"endpoint": ""}, "endpoint is a mandatory field for a kms"),
        ({"endpoint": "tcp://x"}, 'unsupported scheme "tcp" for KMS provider, only unix is supported'),
        ({"timeout": "0s"}, "timeout should be a positive value"),
        ({"timeout": "soon"}, "timeout should be a positive value"),
        ({"apiVersion": "v1"}, "KMSv1 is deprecated"),
        ({"apiVersion": "v3"}, "only v1 and v2 are supported"),
        ({"cachesize": 1}, "cachesize is not supported in v2"),
    ],
)
def test_invalid_configuration_is_refused(tmp_path, fields, told):
    base = {"name": "mykms", "endpoint": "unix:///kms", "apiVersion": "v2"}
    with pytest.raises(EncryptionConfigError) as error:
        read_configuration(configuration(tmp_path, {**base, **fields}))
    assert told in str(error.value)


def test_names_of_plugins_are_unique(tmp_path):
    kms = {"name": "mykms", "endpoint": "unix:///kms", "apiVersion": "v2"}
    with pytest.raises(EncryptionConfigError, match="duplicate KMS provider name mykms, names must be unique"):
        read_configuration(configuration(tmp_path, kms, {"kms": kms}))


def test_events_of_another_server_wait_for_their_key(tmp_path, plugin):
    """Two servers on one store: the second learns the first's seed from the plugin, and loses no event."""

    async def main():
        path = configuration(tmp_path, {"name": "mykms", "endpoint": f"unix://{plugin.socket}", "apiVersion": "v2"})
        inner = MemoryStore()
        await inner.start()
        stores = []
        for _ in range(2):
            transformers = read_configuration(path, SystemClock())
            await transformers.start()
            stores.append(EncryptedStore(inner, transformers, MetricRegistry()))
        first, second = stores
        seen, all_seen = [], asyncio.Event()

        def note(events):
            seen.extend(event.record.value for event in events)
            if len(seen) == 2:
                all_seen.set()

        second.subscribe("/registry/secrets/", second.revision, note)
        for value in (b"a", b"b"):
            await first.write(KEY, value)
        assert inner.get(KEY).value.startswith(b"k8s:enc:kms:v2:mykms:")
        await all_seen.wait()
        assert seen == [b"a", b"b"]
        await second.wait_current()
        assert second.get(KEY).value == b"b"
        third = EncryptedStore(inner, read_configuration(path, SystemClock()), MetricRegistry())
        await third.resolve_keys()
        assert third.get(KEY).value == b"b"
        for store in (first, second, third):
            await store.close_providers()
        await inner.close()

    asyncio.run(main())


def test_cancelled_subscription_gets_no_event_that_waited(tmp_path, plugin):
    async def main():
        path = configuration(tmp_path, {"name": "mykms", "endpoint": f"unix://{plugin.socket}", "apiVersion": "v2"})
        inner = MemoryStore()
        await inner.start()
        transformers = [read_configuration(path, SystemClock()) for _ in range(2)]
        for one in transformers:
            await one.start()
        first, second = (EncryptedStore(inner, one, MetricRegistry()) for one in transformers)
        seen = []
        subscription = second.subscribe("/registry/secrets/", second.revision, seen.extend)
        await first.write(KEY, b"a")
        subscription.cancel()
        await second.resolve_keys()
        await first.write(KEY, b"b")
        await asyncio.sleep(0)
        assert seen == []
        for store in (first, second):
            await store.close_providers()
        await inner.close()

    asyncio.run(main())


def test_server_encrypts_with_the_plugin_and_reports_its_health(tmp_path, plugin):
    async def main():
        kms = {"name": "mykms", "endpoint": f"unix://{plugin.socket}", "apiVersion": "v2"}
        store = f"sqlite:{tmp_path / 'store.db'}"
        config = ApiServerConfig(port=0, store=store, encryption=configuration(tmp_path, kms))
        secret = Secret(metadata=ObjectMeta(name="one", namespace="default"), data={"word": b"swordfish"})
        for attempt in range(2):
            server = await start_server(config, SystemClock())
            try:
                transport = InProcessTransport(server.app, User("admin", ("system:masters",)))
                if not attempt:
                    await transport.call(Call(verb="create", resource=SECRETS, namespace="default", body=secret))
                found = await transport.call(Call(verb="get", resource=SECRETS, namespace="default", name="one"))
                assert found.data == {"word": b"swordfish"}
                response = await server.app.handle(Request("GET", "/livez", "verbose"))
                assert b"[+]kms-provider-0 ok" in response.body
            finally:
                await server.close()
        assert b"swordfish" not in (tmp_path / "store.db").read_bytes()

    asyncio.run(main())
