# SPDX-License-Identifier: Apache-2.0
"""Security modules of the machine, and pods that it cannot run as they ask."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubeloop.api import codec
from kubeloop.api.generated.core_v1 import Node, NodeFeatures, NodeStatus, Pod
from kubeloop.kubelet.cri.config.security_context import (
    ImageUser,
    SecurityInputs,
    app_armor_profile,
    container_security_context,
)
from kubeloop.kubelet.cri.isolation.host_security import HostSecurity, read_host_security

NODE = Node()
ANNOTATION = "container.apparmor.security.beta.kubernetes.io/c"
DEFAULT, FREE = {"type": "RuntimeDefault"}, {"type": "Unconfined"}


def pod_with(context: dict[str, Any], own: dict[str, Any] | None = None, annotation: str = "") -> Pod:
    container = {"name": "c", "image": "i", "securityContext": own or {}}
    about = {"annotations": {ANNOTATION: annotation} if annotation else {}}
    return codec.from_plain({"metadata": about, "spec": {"containers": [container], "securityContext": context}}, Pod)


@pytest.mark.parametrize(
    "pod",
    [
        pod_with({"appArmorProfile": DEFAULT}),
        pod_with({}, {"appArmorProfile": {"type": "Localhost", "localhostProfile": "mine"}}),
        pod_with({}, annotation="runtime/default"),
    ],
)
def test_profiles_need_app_armor(pod: Pod) -> None:
    found = HostSecurity().rejection(pod, NODE)
    assert found is not None
    assert (found.reason, found.message) == (
        "AppArmor",
        "Cannot enforce AppArmor: AppArmor is not enabled on the host",
    )
    assert HostSecurity(has_app_armor=True).rejection(pod, NODE) is None


def test_unconfined_pods_and_empty_names() -> None:
    assert HostSecurity().rejection(pod_with({"appArmorProfile": FREE}), NODE) is None
    assert HostSecurity().rejection(pod_with({}, annotation="unconfined"), NODE) is None
    empty = HostSecurity(has_app_armor=True).rejection(pod_with({}, annotation="localhost/ "), NODE)
    assert empty is not None
    assert "invalid empty AppArmor profile name" in empty.message


def test_a_profile_is_that_of_the_container_then_of_an_annotation_then_of_the_pod() -> None:
    def profile(pod: Pod) -> tuple[str, str | None] | None:
        found = app_armor_profile(pod, (pod.spec.containers or ())[0])
        return None if found is None else (found.type, found.localhost_profile)

    assert profile(pod_with({"appArmorProfile": FREE}, {"appArmorProfile": DEFAULT}, "unconfined")) == (
        "RuntimeDefault",
        None,
    )
    assert profile(pod_with({"appArmorProfile": FREE}, annotation="localhost/mine")) == ("Localhost", "mine")
    assert profile(pod_with({"appArmorProfile": FREE}, annotation="nonsense")) == ("Unconfined", None)
    assert profile(pod_with({})) is None


def test_strict_groups_need_a_runtime_that_supports_them() -> None:
    strict = pod_with({"supplementalGroupsPolicy": "Strict"})
    found = HostSecurity().rejection(strict, NODE)
    assert found is not None
    assert found.reason == "SupplementalGroupsPolicyNotSupported"
    assert found.message == "SupplementalGroupsPolicy=Strict is not supported in this node"
    able = Node(status=NodeStatus(features=NodeFeatures(supplemental_groups_policy=True)))
    assert HostSecurity().rejection(strict, able) is None
    assert HostSecurity().rejection(pod_with({"supplementalGroupsPolicy": "Merge"}), NODE) is None


def test_modules_are_read_from_the_kernel(tmp_path: Path) -> None:
    assert read_host_security(tmp_path) == HostSecurity()
    for folder in ("sys/kernel/security/apparmor", "sys/module/apparmor/parameters", "sys/fs/selinux"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sys/module/apparmor/parameters/enabled").write_text("Y\n")
    (tmp_path / "sys/fs/selinux/status").write_text("")
    (tmp_path / "sys/devices/system/cpu/cpu1/thermal_throttle").mkdir(parents=True)
    path = "/sys/devices/system/cpu/cpu1/thermal_throttle"
    assert read_host_security(tmp_path) == HostSecurity(True, True, (path,))


def test_paths_of_the_machine_are_masked_unless_the_container_has_none() -> None:
    inputs = SecurityInputs(ImageUser(), "/seccomp", masked_paths=("/sys/x",))
    pod = pod_with({})
    (container,) = pod.spec.containers or ()
    assert container_security_context(pod, container, inputs).masked_paths[-1] == "/sys/x"
    open_pod = pod_with({}, {"procMount": "Unmasked"})
    (container,) = open_pod.spec.containers or ()
    assert container_security_context(open_pod, container, inputs).masked_paths == ()
