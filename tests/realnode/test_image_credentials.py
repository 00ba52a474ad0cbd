# SPDX-License-Identifier: Apache-2.0
"""Pulls from a registry that demands credentials: of pull secrets and of plugins, verified for each pod."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.realnode.containerd import Containerd
from tests.realnode.node import RealNode
from tests.realnode.test_pods import container, pod, wait_reason

pytestmark = pytest.mark.realnode

PORT = 5000
REGISTRY = f"127.0.0.1:{PORT}"
ALICE, BOB = "alice:secret", "bob:hidden"
PRIVATE, PLUGIN = f"{REGISTRY}/private/app:1", f"{REGISTRY}/plugin/app:1"


@contextmanager
def run_registry(runtime: Containerd, archive: Path) -> Iterator[None]:
    program = (sys.executable, "-m", "tests.realnode.registry", str(PORT), str(archive))
    command = runtime.enter(*program, f"private/app={ALICE}", f"plugin/app={BOB}")
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def write_config(folder: Path) -> list[str]:
    """Write the configuration of the kubelet and of a plugin; return the flags."""
    auth = dict(zip(("username", "password"), BOB.split(":"), strict=True))
    response = {
        "kind": "CredentialProviderResponse",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1",
        "cacheKeyType": "Registry",
        "auth": {REGISTRY: auth},
    }
    plugins = folder / "plugins"
    plugins.mkdir()
    (plugins / "bob").write_text(f"#!/bin/sh\ncat > {folder}/request\necho '{json.dumps(response)}'\n")
    (plugins / "bob").chmod(0o755)
    provider = {
        "name": "bob",
        "matchImages": [f"{REGISTRY}/plugin"],
        "defaultCacheDuration": "1h",
        "apiVersion": response["apiVersion"],
    }
    config = {"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [provider]}
    (folder / "providers.json").write_text(json.dumps(config))
    settings = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "imagePullCredentialsVerificationPolicy": "AlwaysVerify",
    }
    (folder / "kubelet.json").write_text(json.dumps(settings))
    files = ("--config", str(folder / "kubelet.json"))
    providers = ("--image-credential-provider-config", str(folder / "providers.json"))
    return [*files, *providers, "--image-credential-provider-bin-dir", str(plugins)]


@pytest.fixture
def credential_node(own_containerd: Containerd, archives: list[Path]) -> Iterator[RealNode]:
    folder = own_containerd.folder / "node"
    folder.mkdir()
    node = RealNode(own_containerd, folder)
    with run_registry(own_containerd, archives[0]), node.plane():
        node.start_kubelet(*write_config(folder))
        try:
            node.eventually(node.is_ready)
            yield node
            node.remove_pods()
        finally:
            node.stop_kubelet()


def pull_secret() -> dict[str, Any]:
    auth = base64.b64encode(ALICE.encode()).decode()
    content = json.dumps({"auths": {REGISTRY: {"auth": auth}}})
    about = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "alice"}}
    return {**about, "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": content}}


def app(name: str, image: str, policy: str = "IfNotPresent", **spec: Any) -> dict[str, Any]:
    own = container("c", "true", image=image, imagePullPolicy=policy)
    return pod(name, own, restartPolicy="Never", **spec)


def test_images_are_for_pods_with_credentials(credential_node: RealNode) -> None:
    node, secret = credential_node, {"imagePullSecrets": [{"name": "alice"}]}
    node.apply(pull_secret())
    node.eventually(lambda: "default" in node.kubectl("get", "serviceaccounts", "-o", "name"))
    node.apply(app("first", PRIVATE, **secret))
    node.wait_phase("first", "Succeeded")
    node.apply(app("refused", PRIVATE), app("never", PRIVATE, "Never"), app("again", PRIVATE, "Never", **secret))
    node.wait_phase("again", "Succeeded")
    assert "already present on machine and can be accessed by the pod" in node.kubectl("describe", "pod", "again")
    wait_reason(node, "never", "ErrImageNeverPull")
    waiting = wait_reason(node, "refused", "ImagePullBackOff")
    assert "ErrImagePull" in waiting["message"]
    node.apply(app("plugin", PLUGIN))
    node.wait_phase("plugin", "Succeeded")
    request = json.loads((node.folder / "request").read_text())
    assert request["image"] == f"{REGISTRY}/plugin/app"
    files = (node.root / "image_manager" / "pulled").iterdir()
    (mapping,) = (json.loads(one.read_text())["credentialMapping"] for one in files)  # both names are one image
    (found,) = mapping[f"{REGISTRY}/private/app"]["kubernetesSecrets"]
    assert found["name"] == "alice"
    assert mapping[f"{REGISTRY}/plugin/app"] == {"nodePodsAccessible": True}
    assert not list((node.root / "image_manager" / "pulling").iterdir())
