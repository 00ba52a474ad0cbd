# SPDX-License-Identifier: Apache-2.0
"""Image manager: policies, and credentials by upstream's rules."""

from __future__ import annotations

import asyncio
import base64
import json
from hashlib import sha256
from pathlib import Path
from typing import cast

import pytest

from kubeloop.api.generated.core_v1 import Container, LocalObjectReference, Pod, PodSpec, Secret
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.clock import SystemClock
from kubeloop.grpc.streams import UNAVAILABLE, RpcError
from kubeloop.kubelet.credentialprovider.docker_config import NodeDockerConfig
from kubeloop.kubelet.credentialprovider.pull_keyring import PullKeyring
from kubeloop.kubelet.cri.image_manager import ImageManager, PullParts
from kubeloop.kubelet.cri.messages.image import Image, ImageSpec, PullImageRequest
from kubeloop.kubelet.cri.messages.sandbox import PodSandboxConfig
from kubeloop.kubelet.cri.services import ImageService
from kubeloop.kubelet.images.pull_manager import ImagePullManager
from kubeloop.kubelet.images.pull_policies import new_verification_policy
from kubeloop.kubelet.images.pull_records import PullRecords
from kubeloop.kubelet.runtime import ContainerStartError
from tests.unit.kubelet.fake_client import FakeClient


def pull_secret(name: str, servers: dict[str, str]) -> Secret:
    auths = {server: {"auth": base64.b64encode(f"{user}:p:w".encode()).decode()} for server, user in servers.items()}
    content = json.dumps({"auths": auths}).encode()
    return Secret(
        metadata=ObjectMeta(name=name, namespace="ns", uid=name),
        type="kubernetes.io/dockerconfigjson",
        data={".dockerconfigjson": content},
    )


class FakeImages:
    """Images of a runtime; pulls without the right user fail. Records events as well."""

    def __init__(self, *present: str, user: str = "", root: Path | None = None) -> None:
        self.present = set(present)
        self.root = root  # of records
        self.policy = "AlwaysVerify"
        self.failure = "denied for {user}"
        self.user = user
        self.users: list[str] = []
        self.events: list[str] = []

    async def image_status(self, spec: ImageSpec) -> Image | None:
        return Image(id=f"id-{spec.image}", username="u") if spec.image in self.present else None

    async def pull_image(self, request: PullImageRequest) -> str:
        assert request.image is not None
        self.users.append(request.auth.username if request.auth is not None else "")
        if self.users[-1] != self.user:
            raise RpcError(UNAVAILABLE, self.failure.format(user=self.users[-1]))
        if self.root is not None:
            assert [one.image for one in PullRecords(self.root).intents()], "the intent is recorded before the pull"
        self.present.add(request.image.image)
        return f"id-{request.image.image}"

    def record_image_pulling(self, pod: Pod, container: Container) -> None:
        self.events.append("Pulling")

    def record_image_pulled(self, pod: Pod, container: Container, size: int, seconds: float) -> None:
        self.events.append("Pulled")

    def record_image_present(self, pod: Pod, container: Container, *, is_verified: bool) -> None:
        self.events.append("Verified" if is_verified else "Present")

    def ensure(self, policy: str, *secrets: Secret, image: str = "reg.io/app") -> str:
        clock = SystemClock()
        nowhere = Path("/nonexistent")
        keyring = PullKeyring(FakeClient(*secrets).as_client(), NodeDockerConfig(nowhere, nowhere, clock))
        records = None
        if self.root is not None:
            records = ImagePullManager(PullRecords(self.root), new_verification_policy(self.policy, ()), clock)
            records.open()
        manager = ImageManager(cast(ImageService, self), PullParts(keyring, records), self, 1)
        references = tuple(LocalObjectReference(name=one.metadata.name) for one in secrets)
        references = (*references, LocalObjectReference(name="missing"))
        pod = Pod(metadata=ObjectMeta(namespace="ns"), spec=PodSpec(image_pull_secrets=references))
        container = Container(name="c", image=image, image_pull_policy=policy)
        return asyncio.run(manager.ensure_image(pod, container, PodSandboxConfig())).ref


@pytest.mark.parametrize(
    ("policy", "present", "events"),
    [
        ("IfNotPresent", ("reg.io/app:latest",), ["Present"]),
        ("IfNotPresent", (), ["Pulling", "Pulled"]),
        ("Always", ("reg.io/app:latest",), ["Pulling", "Pulled"]),
        ("Never", ("reg.io/app:latest",), ["Present"]),
    ],
)
def test_policies(policy: str, present: tuple[str, ...], events: list[str]) -> None:
    images = FakeImages(*present)
    assert images.ensure(policy) == "id-reg.io/app:latest"
    assert images.events == events


def test_an_image_that_must_not_be_pulled() -> None:
    with pytest.raises(ContainerStartError, match="is not present with pull policy of Never") as raised:
        FakeImages().ensure("Never")
    assert raised.value.reason == "ErrImageNeverPull"


def test_credentials_are_tried_until_one_works() -> None:
    images = FakeImages(user="good")
    images.ensure("Always", pull_secret("a", {"reg.io": "bad"}), pull_secret("b", {"reg.io/app": "good"}))
    assert images.users == ["good"]
    images = FakeImages(user="good")
    images.ensure("Always", pull_secret("a", {"reg.io/app": "bad"}), pull_secret("b", {"reg.io": "good"}))
    assert images.users == ["bad", "good"]


def test_all_failures_are_reported() -> None:
    secrets = (pull_secret("a", {"reg.io": "bad"}), pull_secret("b", {"reg.io": "worse"}))
    with pytest.raises(ContainerStartError, match=": denied for bad"):
        FakeImages(user="good").ensure("Always", secrets[0])
    with pytest.raises(ContainerStartError, match=r": \[denied for bad, denied for worse\]"):
        FakeImages(user="good").ensure("Always", *secrets)


@pytest.mark.parametrize(
    ("failure", "reason", "message"),
    [
        ("gone", "ErrImagePull", "gone"),
        (
            "RegistryUnavailable: no route",
            "RegistryUnavailable",
            "image pull failed for reg.io/app because the registry is unavailable: no route",
        ),
        (
            "SignatureValidationFailed",
            "SignatureValidationFailed",
            "image pull failed for reg.io/app because the signature validation failed",
        ),
    ],
)
def test_reasons_of_failed_pulls(failure: str, reason: str, message: str) -> None:
    images = FakeImages(user="nobody has")
    images.failure = failure
    with pytest.raises(ContainerStartError) as raised:
        images.ensure("Always")
    assert (raised.value.reason, str(raised.value.message)) == (reason, message)


def test_a_malformed_name_is_reported() -> None:
    with pytest.raises(ContainerStartError, match="couldn't parse image name") as raised:
        FakeImages().ensure("Always", image="Reg io")
    assert raised.value.reason == "InvalidImageName"


def test_a_malformed_pull_secret_is_reported() -> None:
    broken = Secret(
        metadata=ObjectMeta(name="s", namespace="ns"),
        type="kubernetes.io/dockerconfigjson",
        data={".dockerconfigjson": b'{"auths": {"reg.io": {"auth": "!"}}}'},
    )
    with pytest.raises(ContainerStartError, match="illegal base64 data"):
        FakeImages().ensure("Always", broken)


def test_a_pod_without_the_credentials_of_the_pull_has_no_access(tmp_path: Path) -> None:
    images = FakeImages(user="good", root=tmp_path)
    secret = pull_secret("a", {"reg.io": "good"})
    images.ensure("IfNotPresent", secret)
    images.ensure("IfNotPresent", secret)
    images.ensure("Never", secret)
    assert images.events == ["Pulling", "Pulled", "Verified", "Verified"]
    assert not PullRecords(tmp_path).intents()
    with pytest.raises(ContainerStartError, match="denied for") as raised:
        images.ensure("IfNotPresent")
    assert raised.value.reason == "ErrImagePull"
    with pytest.raises(ContainerStartError, match="is not present with pull policy of Never") as raised:
        images.ensure("Never")
    assert raised.value.reason == "ErrImageNeverPull"
    assert not PullRecords(tmp_path).intents(), "failed pulls leave no intents"
    images.policy = "NeverVerify"
    images.ensure("IfNotPresent")


def test_an_image_that_anyone_can_pull_is_for_all_pods(tmp_path: Path) -> None:
    images = FakeImages(root=tmp_path)
    images.ensure("IfNotPresent")
    images.ensure("Never", pull_secret("a", {"other.io": "u"}))
    assert images.events == ["Pulling", "Pulled", "Verified"]


def test_a_pull_whose_intent_cannot_be_recorded_is_not_tried(tmp_path: Path) -> None:
    images = FakeImages(root=tmp_path)
    images.ensure("Always")
    (tmp_path / "image_manager/pulling" / f"sha256-{sha256(b'reg.io/app').hexdigest()}").mkdir()
    with pytest.raises(ContainerStartError, match="Failed to record image pull intent"):
        images.ensure("Always")
    assert images.users == [""]
