# SPDX-License-Identifier: Apache-2.0
"""Files of configMap, secret, downwardAPI and projected volumes."""

from __future__ import annotations

import pytest

from kubeloop.api.errors import ServiceUnavailable
from kubeloop.api.generated.certificates_v1 import ClusterTrustBundle, ClusterTrustBundleSpec
from kubeloop.api.generated.core_v1 import (
    ClusterTrustBundleProjection,
    ConfigMap,
    ConfigMapProjection,
    ConfigMapVolumeSource,
    Container,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    KeyToPath,
    ObjectFieldSelector,
    Pod,
    PodSecurityContext,
    PodSpec,
    ProjectedVolumeSource,
    ResourceFieldSelector,
    ResourceRequirements,
    Secret,
    SecretProjection,
    SecretVolumeSource,
    SecurityContext,
    ServiceAccountTokenProjection,
    Volume,
    VolumeProjection,
)
from kubeloop.api.generated.meta_v1 import LabelSelector, ObjectMeta
from kubeloop.kubelet.volumes.host.atomic_writer import FileContent
from kubeloop.kubelet.volumes.host.payload_error import PayloadError
from kubeloop.kubelet.volumes.host.payloads import common_user_of, join_certificates
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual
from tests.unit.kubelet.fake_client import FakeClient, new_reader

ABOUT = ObjectMeta(name="one", namespace="ns")
CONFIG_MAP = ConfigMap(metadata=ABOUT, data={"a": "1", "b": "2"}, binary_data={"c": b"\xff"})
SECRET = Secret(metadata=ABOUT, data={"key": b"hidden"})


def make_pod(context: PodSecurityContext | None = None, *containers: Container) -> Pod:
    spec = PodSpec(
        service_account_name="account", security_context=context, containers=containers or (Container(name="main"),)
    )
    return Pod(metadata=ObjectMeta(name="pod", namespace="ns", uid="u", labels={"app": "x"}), spec=spec)


POD = make_pod()


def read(volume: Volume, *objects: object, pod: Pod = POD) -> dict[str, FileContent] | None:
    loop = VirtualLoop()
    reader = new_reader(FakeClient(*objects), VirtualClock(loop))
    return run_virtual(reader.read(pod, volume, {"memory": "1Gi"}), loop=loop)


def config_map(**options: object) -> Volume:
    return Volume(name="v", config_map=ConfigMapVolumeSource(name="one", **options))  # type: ignore[arg-type]


def secret(**options: object) -> Volume:
    return Volume(name="v", secret=SecretVolumeSource(secret_name="one", **options))  # type: ignore[arg-type]


ITEMS = (KeyToPath(key="a", path="x/y", mode=0o400, user=7), KeyToPath(key="c", path="z"))


@pytest.mark.parametrize(
    ("volume", "files"),
    [
        (
            config_map(),
            {"a": FileContent(b"1", 0o644), "b": FileContent(b"2", 0o644), "c": FileContent(b"\xff", 0o644)},
        ),
        (config_map(default_mode=0o600, items=ITEMS[1:]), {"z": FileContent(b"\xff", 0o600)}),
        (config_map(items=ITEMS), {"x/y": FileContent(b"1", 0o400, 7), "z": FileContent(b"\xff", 0o644)}),
        (
            config_map(default_user=5, items=ITEMS),
            {"x/y": FileContent(b"1", 0o400, 7), "z": FileContent(b"\xff", 0o644, 5)},
        ),
        (
            config_map(optional=True, items=(KeyToPath(key="no", path="p"), ITEMS[1])),
            {"z": FileContent(b"\xff", 0o644)},
        ),
        (secret(), {"key": FileContent(b"hidden", 0o644)}),
        (secret(default_mode=0o400), {"key": FileContent(b"hidden", 0o400)}),
        (secret(optional=True, items=(KeyToPath(key="no", path="p"),)), {}),
        (Volume(name="v", empty_dir=EmptyDirVolumeSource()), None),
    ],
)
def test_entries_are_files(volume: Volume, files: dict[str, FileContent] | None) -> None:
    assert read(volume, CONFIG_MAP, SECRET) == files


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        (config_map(items=(KeyToPath(key="no", path="p"),)), "configmap references non-existent config key: no"),
        (secret(items=(KeyToPath(key="no", path="p"),)), "references non-existent secret key: no"),
    ],
)
def test_missing_keys_are_errors(volume: Volume, message: str) -> None:
    with pytest.raises(PayloadError, match=f"^{message}$"):
        read(volume, CONFIG_MAP, SECRET)


@pytest.mark.parametrize(("volume", "kind"), [(config_map(), "configmap"), (secret(), "secret")])
def test_missing_objects_are_errors(volume: Volume, kind: str) -> None:
    with pytest.raises(PayloadError, match=f'^{kind} "one" not found$'):
        read(volume)


@pytest.mark.parametrize(
    "volume", [config_map(optional=True), secret(optional=True), config_map(optional=True, items=ITEMS)]
)
def test_missing_optional_objects_are_empty(volume: Volume) -> None:
    assert read(volume) == {}


def test_the_downward_api_writes_fields_and_resources() -> None:
    limits = ResourceRequirements(limits={"cpu": "1500m"})
    pod = make_pod(None, Container(name="main", resources=limits))
    items = (
        DownwardAPIVolumeFile(path="labels", field_ref=ObjectFieldSelector(field_path="metadata.labels"), mode=0o400),
        DownwardAPIVolumeFile(
            path="cpu", resource_field_ref=ResourceFieldSelector(container_name="main", resource="limits.cpu")
        ),
        DownwardAPIVolumeFile(
            path="memory",
            resource_field_ref=ResourceFieldSelector(container_name="main", resource="limits.memory", divisor="1Mi"),
        ),
    )
    found = read(Volume(name="v", downward_api=DownwardAPIVolumeSource(items=items, default_mode=0o644)), pod=pod)
    assert found == {
        "labels": FileContent(b'app="x"', 0o400),
        "cpu": FileContent(b"2", 0o644),
        "memory": FileContent(b"1024", 0o644),
    }


def test_a_projected_volume_joins_its_sources() -> None:
    sources = (
        VolumeProjection(config_map=ConfigMapProjection(name="one", items=(KeyToPath(key="a", path="dir/a"),))),
        VolumeProjection(secret=SecretProjection(name="one")),
        VolumeProjection(secret=SecretProjection(name="gone", optional=True)),
        VolumeProjection(service_account_token=ServiceAccountTokenProjection(path="token", expiration_seconds=3600)),
    )
    found = read(
        Volume(name="v", projected=ProjectedVolumeSource(sources=sources, default_mode=0o440)), CONFIG_MAP, SECRET
    )
    assert found == {
        "dir/a": FileContent(b"1", 0o440),
        "key": FileContent(b"hidden", 0o440),
        "token": FileContent(b"token-1", 0o440),
    }


def token_volume(**options: object) -> Volume:
    token = ServiceAccountTokenProjection(path="token", expiration_seconds=3600, audience="vault")
    return Volume(
        name="v",
        projected=ProjectedVolumeSource(sources=(VolumeProjection(service_account_token=token),), **options),  # type: ignore[arg-type]
    )


def container(user: int | None, name: str = "main") -> Container:
    return Container(name=name, security_context=SecurityContext(run_as_user=user))


@pytest.mark.parametrize(
    ("pod", "options", "expected"),
    [
        (make_pod(), {}, (0o644, None)),
        (make_pod(PodSecurityContext(fs_group=9)), {}, (0o600, None)),  # the group is let in when it is set
        (make_pod(PodSecurityContext(run_as_user=7)), {}, (0o600, 7)),
        (make_pod(None, container(7), container(7, "b")), {}, (0o600, 7)),
        (make_pod(None, container(7), container(8, "b")), {}, (0o644, None)),
        (make_pod(None, container(7), container(None, "b")), {}, (0o644, None)),
        (make_pod(PodSecurityContext(run_as_user=7)), {"default_user": 3}, (0o600, 3)),
    ],
)
def test_a_token_belongs_to_the_user_of_the_pod(
    pod: Pod, options: dict[str, int], expected: tuple[int, int | None]
) -> None:
    found = read(token_volume(**options), pod=pod)
    assert found is not None
    assert (found["token"].mode, found["token"].uid) == expected


def test_the_user_of_a_container_overrides_that_of_the_pod() -> None:
    assert common_user_of(make_pod(PodSecurityContext(run_as_user=7), container(8))) == 8
    assert common_user_of(make_pod(PodSecurityContext(run_as_user=7), container(8), container(None, "b"))) is None


def test_a_token_is_refreshed_after_most_of_its_lifetime() -> None:
    async def scenario() -> None:
        async def token() -> bytes:
            files = await reader.read(POD, token_volume(), {})
            assert files is not None
            return files["token"].data

        client = FakeClient()
        reader = new_reader(client, VirtualClock(loop))
        assert await token() == await token() == b"token-1"
        account, namespace, request = client.requests[0]
        assert (account, namespace, request.spec.audiences) == ("account", "ns", ("vault",))
        reference = request.spec.bound_object_ref
        assert reference is not None
        assert (reference.kind, reference.name, reference.uid) == ("Pod", "pod", "u")
        await loop.advance(0.8 * 3600 - 1)
        assert await token() == b"token-1"
        await loop.advance(2)
        client.failure = ServiceUnavailable("no")
        assert await token() == b"token-1", "a token that is still valid is kept if no other can be had"
        client.failure = None
        assert await token() == b"token-2"
        client.failure = ServiceUnavailable("no")
        await loop.advance(3601)
        with pytest.raises(ServiceUnavailable):
            await token()
        client.failure = None
        assert await token() == b"token-3"
        reader.remove_pod("u")
        assert await token() == b"token-4"

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)


def test_a_token_of_a_long_lifetime_is_refreshed_daily() -> None:
    async def scenario() -> None:
        reader = new_reader(FakeClient(), VirtualClock(loop))
        long = ServiceAccountTokenProjection(path="token", expiration_seconds=30 * 86_400)
        volume = Volume(
            name="v", projected=ProjectedVolumeSource(sources=(VolumeProjection(service_account_token=long),))
        )
        assert await reader.read(POD, volume, {}) == {"token": FileContent(b"token-1", 0o644)}
        await loop.advance(86_401)
        assert await reader.read(POD, volume, {}) == {"token": FileContent(b"token-2", 0o644)}

    loop = VirtualLoop()
    run_virtual(scenario(), loop=loop)


def certificate(text: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----"


def bundle(name: str, signer: str, *texts: str) -> ClusterTrustBundle:
    return ClusterTrustBundle(
        metadata=ObjectMeta(name=name, labels={"kind": "x"}),
        spec=ClusterTrustBundleSpec(signer_name=signer, trust_bundle="comment\n".join(map(certificate, texts))),
    )


def trust_volume(**options: object) -> Volume:
    wanted = ClusterTrustBundleProjection(path="ca.pem", **options)  # type: ignore[arg-type]
    return Volume(name="v", projected=ProjectedVolumeSource(sources=(VolumeProjection(cluster_trust_bundle=wanted),)))


def test_trust_bundles_are_joined_without_repeated_certificates() -> None:
    assert join_certificates((certificate("A") + "junk" + certificate("B"), certificate("A"))) == (
        certificate("A") + "\n" + certificate("B") + "\n"
    )
    found = read(
        trust_volume(signer_name="s", label_selector=LabelSelector(match_labels={"kind": "x"})),
        bundle("one", "s", "A"),
        bundle("two", "s", "B", "A"),
    )
    assert found == {"ca.pem": FileContent(f"{certificate('A')}\n{certificate('B')}\n".encode(), 0o644)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "gone"}, 'while getting ClusterTrustBundle: clustertrustbundle "gone" not found'),
        (
            {"signer_name": "s", "label_selector": LabelSelector()},
            "combination of signerName and labelSelector matched zero ClusterTrustBundles",
        ),
    ],
)
def test_a_missing_trust_bundle_is_an_error_unless_it_is_optional(options: dict[str, object], message: str) -> None:
    with pytest.raises(PayloadError, match=f"^{message}$"):
        read(trust_volume(**options))
    assert read(trust_volume(optional=True, **options)) == {"ca.pem": FileContent(b"", 0o644)}
