# SPDX-License-Identifier: Apache-2.0
"""Image manager: policies, and credentials by upstream's rules."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import cast

import pytest

from kubeloop.api.generated.core_v1 import Container, LocalObjectReference, Pod, PodSpec, Secret
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.grpc.streams import UNAVAILABLE, RpcError
from kubeloop.kubelet.cri.image_manager import ImageManager, matching_credentials, repository_of, with_default_tag
from kubeloop.kubelet.cri.messages.image import Image, ImageSpec, PullImageRequest
from kubeloop.kubelet.cri.messages.sandbox import PodSandboxConfig
from kubeloop.kubelet.cri.services import ImageService
from kubeloop.kubelet.runtime import ContainerStartError
from tests.unit.kubelet.fake_client import FakeClient


def pull_secret(name: str, servers: dict[str, str]) -> Secret:
    auths = {server: {"auth": base64.b64encode(f"{user}:p:w".encode()).decode()} for server, user in servers.items()}
    content = json.dumps({"auths": auths}).encode()
    return Secret(metadata=ObjectMeta(name=name, namespace="ns"), data={".dockerconfigjson": content})


class FakeImages:
    """Images of a runtime; pulls without the right user fail. Records events as well."""

    def __init__(self, *present: str, user: str = "") -> None:
        self.present = set(present)
        self.user = user
        self.users: list[str] = []
        self.events: list[str] = []

    async def image_status(self, spec: ImageSpec) -> Image | None:
        return Image(id=f"id-{spec.image}", username="u") if spec.image in self.present else None

    async def pull_image(self, request: PullImageRequest) -> str:
        assert request.image is not None
        self.users.append(request.auth.username if request.auth is not None else "")
        if self.users[-1] != self.user:
            raise RpcError(UNAVAILABLE, f"denied for {self.users[-1]}")
        self.present.add(request.image.image)
        return request.image.image

    def record_image_pulling(self, pod: Pod, container: Container) -> None:
        self.events.append("Pulling")

    def record_image_pulled(self, pod: Pod, container: Container, size: int | None, seconds: float) -> None:
        self.events.append("Present" if size is None else "Pulled")

    def ensure(self, policy: str, *secrets: Secret) -> str:
        manager = ImageManager(cast(ImageService, self), FakeClient(*secrets).as_client(), self, 1)
        references = tuple(LocalObjectReference(name=one.metadata.name) for one in secrets)
        references = (*references, LocalObjectReference(name="missing"))
        pod = Pod(metadata=ObjectMeta(namespace="ns"), spec=PodSpec(image_pull_secrets=references))
        container = Container(name="c", image="reg.io/app", image_pull_policy=policy)
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


def test_the_last_failure_is_reported() -> None:
    with pytest.raises(ContainerStartError, match="denied for bad"):
        FakeImages(user="good").ensure("Always", pull_secret("a", {"reg.io": "bad"}))


@pytest.mark.parametrize(
    ("image", "expected"),
    [("a", "a:latest"), ("a:1", "a:1"), ("h:5000/a", "h:5000/a:latest"), ("a@sha256:1", "a@sha256:1")],
)
def test_default_tag(image: str, expected: str) -> None:
    assert with_default_tag(image) == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("nginx:1", "docker.io/library/nginx"),
        ("me/app", "docker.io/me/app"),
        ("docker.io/nginx@sha256:1", "docker.io/library/nginx"),
        ("index.docker.io/me/app:1", "docker.io/me/app"),
        ("localhost/app:1", "localhost/app"),
        ("h:5000/a/b:1", "h:5000/a/b"),
    ],
)
def test_repositories(image: str, expected: str) -> None:
    assert repository_of(image) == expected


@pytest.mark.parametrize(
    ("server", "image", "is_match"),
    [
        ("reg.io", "reg.io/a", True),
        ("https://reg.io", "reg.io/a", True),
        ("http://reg.io/", "reg.io/a", True),
        ("https://reg.io/v1/", "reg.io/a", True),
        ("https://reg.io/v2/", "reg.io/a", True),
        ("reg.io/ns", "reg.io/ns/a", True),
        ("reg.io/ns", "reg.io/nsx/a", True),  # the begin of a path, not of its segments
        ("reg.io/ns", "reg.io/other/a", False),
        ("reg.io", "reg.io:5000/a", False),
        ("reg.io:5000", "reg.io:5000/a", True),
        ("reg.io:5000", "reg.io/a", False),
        ("*.reg.io", "x.reg.io/a", True),
        ("*.reg.io", "reg.io/a", False),
        ("*.reg.io", "y.x.reg.io/a", False),
        ("x*.reg.io:80", "xy.reg.io:80/a", True),
        ("https://index.docker.io/v1/", "nginx", True),
        ("index.docker.io", "me/app", True),
        ("docker.io", "nginx", True),
        ("reg.io", "nginx", False),
        ("https://index.docker.io/v1/", "reg.io/a", False),
    ],
)
def test_credentials_match(server: str, image: str, is_match: bool) -> None:
    found = [one.username for one in matching_credentials([pull_secret("s", {server: "u"})], image)]
    assert found == (["u"] if is_match else [])


def test_all_forms_of_pull_secrets_are_read() -> None:
    old = Secret(data={".dockercfg": b'{"reg.io": {"username": "u", "password": "p"}}'})
    broken = Secret(data={".dockerconfigjson": b"{"})
    (found,) = matching_credentials([old, broken, Secret()], "reg.io/a")
    assert (found.username, found.password) == ("u", "p")
    (found,) = matching_credentials([pull_secret("s", {"reg.io": "u"})], "reg.io/a")
    assert (found.username, found.password) == ("u", "p:w")
