# SPDX-License-Identifier: Apache-2.0
"""Credential provider plugins: real programs, their failures, caches and tokens of service accounts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeloop.api.errors import Forbidden
from kubeloop.api.generated.core_v1 import LocalObjectReference, Pod, PodSpec, Secret, ServiceAccount
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.clock import Clock, SystemClock
from kubeloop.kubelet.credentialprovider.docker_config import DockerConfigEntry, NodeDockerConfig
from kubeloop.kubelet.credentialprovider.exec_plugin import ExecPlugin, PluginError, PluginRequest, PluginResponse
from kubeloop.kubelet.credentialprovider.plugin_provider import PluginProvider
from kubeloop.kubelet.credentialprovider.plugin_tokens import PluginTokens
from kubeloop.kubelet.credentialprovider.provider_config import CredentialProvider, decode_providers
from kubeloop.kubelet.credentialprovider.pull_keyring import PullKeyring, new_plugin_providers
from tests.unit.kubelet.fake_client import FakeClient

V1 = "credentialprovider.kubelet.k8s.io/v1"
POD = Pod(metadata=ObjectMeta(name="pod", namespace="ns", uid="pod-uid"), spec=PodSpec(service_account_name="sa"))
TOKENS = {"serviceAccountTokenAudience": "reg", "cacheType": "ServiceAccount", "requireServiceAccount": True}


def response(user: str = "u", password: str = "p", version: str = V1, **fields: Any) -> str:
    auth = {"reg.io": {"username": user, "password": password}}
    plain = {"kind": "CredentialProviderResponse", "apiVersion": version, "cacheKeyType": "Image", "auth": auth}
    return json.dumps({**plain, **fields})


def provider(**fields: Any) -> CredentialProvider:
    plain = {"name": "plugin", "matchImages": ["reg.io", "*.reg.io"], "defaultCacheDuration": "10s", "apiVersion": V1}
    config = {"kind": "CredentialProviderConfig", "apiVersion": "kubelet.config.k8s.io/v1"}
    (found,) = decode_providers({**config, "providers": [{**plain, **fields}]})
    return found


def write_plugin(folder: Path, script: str) -> None:
    file = folder / "plugin"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def run(folder: Path, script: str, *, seconds: float = 60.0, **fields: Any) -> PluginResponse:
    write_plugin(folder, script)
    request = PluginRequest("reg.io/app", "token", {"k": "v"})
    return asyncio.run(ExecPlugin(provider(**fields), folder, seconds).run(request))


def test_a_plugin_gets_a_request_and_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_KUBELET", "1")
    monkeypatch.setenv("OVERRIDDEN", "1")
    script = f"""
    cat > {tmp_path}/request
    echo "$FROM_KUBELET $OVERRIDDEN $OWN $*" > {tmp_path}/environment
    echo '{response(cacheDuration="5m0s")}'"""
    env = [{"name": "OVERRIDDEN", "value": "2"}, {"name": "OWN", "value": "3"}]
    found = run(tmp_path, script, args=["--a", "b c"], env=env)
    assert json.loads((tmp_path / "request").read_text()) == {
        "kind": "CredentialProviderRequest",
        "apiVersion": V1,
        "image": "reg.io/app",
        "serviceAccountToken": "token",
        "serviceAccountAnnotations": {"k": "v"},
    }
    assert (tmp_path / "environment").read_text() == "1 2 3 --a b c\n"
    entry = found.config["reg.io"]
    assert (entry.username, entry.password, found.cache_key_type, found.cache_seconds) == ("u", "p", "Image", 300)


def test_requests_of_older_versions(tmp_path: Path) -> None:
    old = "credentialprovider.kubelet.k8s.io/v1alpha1"
    write_plugin(tmp_path, f"cat > {tmp_path}/request; echo '{response(version=old)}'")
    asyncio.run(ExecPlugin(provider(apiVersion=old), tmp_path).run(PluginRequest("reg.io/app")))
    plain = {"kind": "CredentialProviderRequest", "apiVersion": old, "image": "reg.io/app"}
    assert json.loads((tmp_path / "request").read_text()) == plain


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo denied >&2; exit 3", "for image reg.io/app: exit status 3: denied"),
        ("kill -9 $$", "for image reg.io/app: signal: killed: "),
        ("echo garbage", "error reading GVK from response"),
        ("true", "error reading GVK from response"),
        (f"echo '{response(version='x/v1')}'", f"expected apiVersion:{V1}, actual apiVersion:x/v1"),
        (f"echo '{response(auth=5)}'", "^error decoding credential provider plugin response from stdout$"),
        (f"echo '{response(more=5)}'", "^error decoding credential provider plugin response from stdout$"),
        (f"echo '{response(kind='Other')}'", "^error decoding credential provider plugin response from stdout$"),
        (f"echo '{response(cacheDuration='x')}'", "^error decoding credential provider plugin response from stdout$"),
    ],
)
def test_failures_of_plugins(tmp_path: Path, script: str, problem: str) -> None:
    with pytest.raises(PluginError, match=problem):
        run(tmp_path, script)


def test_a_missing_plugin(tmp_path: Path) -> None:
    plugin = ExecPlugin(provider(), tmp_path)
    with pytest.raises(PluginError, match=r"fork/exec .*/plugin: no such file or directory"):
        asyncio.run(plugin.run(PluginRequest("reg.io/app")))


def test_a_plugin_that_hangs(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"for image reg\.io/app: context deadline exceeded"):
        run(tmp_path, "sleep 1000", seconds=0.1)


class SetClock(SystemClock):
    """Clock whose monotonic time is set."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


class FakePlugin:
    """Responds with the next user; `gate` holds responses back."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        self.requests: list[PluginRequest] = []
        self.gate: asyncio.Event | None = None

    async def run(self, request: PluginRequest) -> PluginResponse:
        self.requests.append(request)
        number = len(self.requests)
        if self.gate is not None:
            await self.gate.wait()
        if self.fields.get("failure"):
            raise PluginError("failed")
        config = {"reg.io": DockerConfigEntry(f"u{number}", self.fields.get("password", "p"))}
        return PluginResponse(config, self.fields.get("key", "Image"), self.fields.get("seconds"))


def accounts(**annotations: str) -> FakeClient:
    return FakeClient(
        ServiceAccount(metadata=ObjectMeta(name="sa", namespace="ns", uid="sa-uid", annotations=annotations))
    )


class Setup:
    """Provider with a fake plugin."""

    def __init__(self, plugin: FakePlugin, client: FakeClient | None = None, **fields: Any) -> None:
        self.plugin = plugin
        self.clock = SetClock()
        tokens = PluginTokens(client.as_client(), self.clock) if client is not None else None
        self.provider = PluginProvider(provider(**fields), plugin, tokens, self.clock)

    def user(self, image: str = "reg.io/app", pod: Pod = POD) -> str | None:
        """Return the user name for an image; None without credentials."""
        config, _ = asyncio.run(self.provider.provide(pod, image))
        return config["reg.io"].username if config else None


def test_images_that_do_not_match_are_not_asked_for() -> None:
    setup = Setup(FakePlugin())
    assert setup.user("other.io/app") is None
    assert setup.user("a.b.reg.io/app") is None
    assert not setup.plugin.requests
    assert setup.user("x.reg.io/app") == "u1"


@pytest.mark.parametrize(
    ("key", "users"),
    [
        ("Image", ["u1", "u1", "u2", "u3"]),
        ("Registry", ["u1", "u1", "u1", "u2"]),
        ("Global", ["u1", "u1", "u1", "u1"]),
    ],
)
def test_responses_are_cached_by_their_key(key: str, users: list[str]) -> None:
    setup = Setup(FakePlugin(key=key))
    images = ["reg.io/app", "reg.io/app", "reg.io/other", "x.reg.io/app"]
    assert [setup.user(one) for one in images] == users


@pytest.mark.parametrize(
    ("seconds", "default", "lifetime"),
    [(None, "10s", 10), (None, "0s", 0), (0.0, "10s", 0), (5.0, "10s", 5)],
)
def test_responses_are_cached_for_their_duration(seconds: float | None, default: str, lifetime: float) -> None:
    setup = Setup(FakePlugin(seconds=seconds), defaultCacheDuration=default)
    assert setup.user() == "u1"
    setup.clock.seconds = lifetime
    assert setup.user() == ("u1" if lifetime else "u2")
    setup.clock.seconds = lifetime + 0.1
    assert setup.user() != "u1"


def test_expired_responses_do_not_stay_in_memory() -> None:
    setup = Setup(FakePlugin())
    for number in range(3):
        setup.user(f"reg.io/app{number}")
    setup.clock.seconds = 1000
    setup.user()
    assert len(setup.provider._cache) == 1


def test_an_unknown_cache_key_type_is_an_error() -> None:
    with pytest.raises(PluginError, match="did not return a valid cacheKeyType: Other"):
        Setup(FakePlugin(key="Other")).user()


def at_once(setup: Setup, *calls: Callable[[], Awaitable[Any]]) -> list[Any]:
    async def run_all() -> list[Any]:
        setup.plugin.gate = asyncio.Event()
        tasks = [asyncio.ensure_future(call()) for call in calls]
        for _ in range(20):  # all of them have come to the plugin
            await asyncio.sleep(0)
        setup.plugin.gate.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(run_all())


def test_equal_requests_at_a_time_share_a_run() -> None:
    setup = Setup(FakePlugin(seconds=0.0))
    provide = setup.provider.provide
    found = at_once(
        setup,
        lambda: provide(POD, "reg.io/app"),
        lambda: provide(POD, "reg.io/app"),
        lambda: provide(POD, "reg.io/other"),
    )
    assert [config["reg.io"].username for config, _ in found] == ["u1", "u1", "u2"]
    assert setup.user() == "u3", "the run has ended"


def test_all_who_wait_get_the_error() -> None:
    setup = Setup(FakePlugin(failure=True))
    found = at_once(setup, *[lambda: setup.provider.provide(POD, "reg.io/app")] * 2)
    assert [str(one) for one in found] == [
        "failed to get credential from external registry credential provider: failed"
    ] * 2
    assert len(setup.plugin.requests) == 1


def test_a_plugin_gets_a_token_bound_to_the_pod() -> None:
    client = accounts(a="1", b="2", c="3")
    keys = {"requiredServiceAccountAnnotationKeys": ["a"], "optionalServiceAccountAnnotationKeys": ["b", "x"]}
    setup = Setup(FakePlugin(), client, tokenAttributes={**TOKENS, **keys})
    _, source = asyncio.run(setup.provider.provide(POD, "reg.io/app"))
    (request,) = setup.plugin.requests
    assert (request.token, request.annotations) == ("token-1", {"a": "1", "b": "2"})
    ((account, namespace, asked),) = client.requests
    assert (account, namespace, asked.metadata.uid) == ("sa", "ns", "sa-uid")
    bound = asked.spec.bound_object_ref
    assert bound is not None
    assert (asked.spec.audiences, bound.kind, bound.name, bound.uid) == (("reg",), "Pod", "pod", "pod-uid")
    assert source.service_account is not None
    assert (source.service_account.uid, source.service_account.name) == ("sa-uid", "sa")


def test_credentials_of_service_accounts_are_cached_apart() -> None:
    client = accounts()
    client.put(ServiceAccount(metadata=ObjectMeta(name="other", namespace="ns", uid="o")))
    setup = Setup(FakePlugin(key="Global"), client, tokenAttributes=TOKENS)
    second = msgspec.structs.replace(POD, metadata=ObjectMeta(name="pod2", namespace="ns", uid="pod2"))
    other = msgspec.structs.replace(POD, spec=PodSpec(service_account_name="other"))
    assert [setup.user(pod=one) for one in (POD, second, other)] == ["u1", "u1", "u2"]
    setup = Setup(FakePlugin(key="Global"), client, tokenAttributes={**TOKENS, "cacheType": "Token"})
    assert [setup.user(pod=one) for one in (POD, POD, second)] == ["u1", "u1", "u2"]


def test_pods_that_a_plugin_is_not_asked_for() -> None:
    client = accounts(a="1")
    setup = Setup(FakePlugin(), client, tokenAttributes={**TOKENS, "requiredServiceAccountAnnotationKeys": ["missing"]})
    assert setup.user() is None
    nobody = msgspec.structs.replace(POD, spec=PodSpec())
    assert setup.user(pod=nobody) is None
    assert not setup.plugin.requests
    setup = Setup(FakePlugin(), client, tokenAttributes={**TOKENS, "requireServiceAccount": False})
    assert setup.user(pod=nobody) == "u1"
    assert setup.plugin.requests[0].token == ""


def test_a_missing_account_and_a_refused_token_are_errors() -> None:
    setup = Setup(FakePlugin(), FakeClient(), tokenAttributes=TOKENS)
    with pytest.raises(PluginError, match="failed to get service account: "):
        setup.user()

    class Refusing(FakeClient):
        async def create_subresource(self, *_: Any, **__: Any) -> Any:
            raise Forbidden("no")

    client = Refusing(*accounts().objects.values())
    with pytest.raises(PluginError, match="failed to get service account token: failed to fetch token: no"):
        Setup(FakePlugin(), client, tokenAttributes=TOKENS).user()


def test_a_plugin_must_not_return_the_token_itself() -> None:
    plugin = FakePlugin(password="token-1")
    with pytest.raises(PluginError, match="returned the service account token as the password"):
        Setup(plugin, accounts(), tokenAttributes=TOKENS).user()
    token_cache = {**TOKENS, "cacheType": "Token"}
    assert Setup(FakePlugin(password="token-1"), accounts(), tokenAttributes=token_cache).user() == "u1"


def test_a_failing_plugin_does_not_disturb_other_credentials(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_plugin(tmp_path, f"echo '{response('plugin')}'")
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    content = json.dumps({"auths": {"reg.io": {"username": "secret", "password": "p"}}}).encode()
    secret = Secret(
        metadata=ObjectMeta(name="s", namespace="ns", uid="s-uid"),
        type="kubernetes.io/dockerconfigjson",
        data={".dockerconfigjson": content},
    )
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"reg.io": {"username": "node"}}}))
    clock: Clock = SystemClock()
    plugins = new_plugin_providers([provider(name="broken"), provider()], tmp_path, None, clock)
    client = FakeClient(secret).as_client()
    keyring = PullKeyring(client, NodeDockerConfig(tmp_path, tmp_path, clock), plugins)
    references = tuple(LocalObjectReference(name=one) for one in ("missing", "s", ""))
    pod = msgspec.structs.replace(POD, spec=PodSpec(image_pull_secrets=references))
    found = asyncio.run(keyring.lookup(pod, "reg.io/app"))
    assert [one.entry.username for one in found] == ["secret", "node", "plugin"]
    assert found[0].source.secret is not None
    assert "Failed to provide credentials for image reg.io/app, provider broken" in caplog.text
