# SPDX-License-Identifier: Apache-2.0
"""Security contexts of containers and sandboxes."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import (
    AppArmorProfile,
    Capabilities,
    Container,
    EphemeralContainer,
    Pod,
    PodSecurityContext,
    PodSpec,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.kubelet.cri.config.security_context import (
    ContainerConfigError,
    ImageUser,
    SecurityInputs,
    container_security_context,
    namespaces_of,
    sandbox_security_context,
)
from kubeloop.kubelet.cri.messages.container import LinuxContainerSecurityContext
from kubeloop.kubelet.cri.messages.security import (
    Capability,
    Int64Value,
    NamespaceMode,
    NamespaceOption,
    ProfileType,
    SecurityProfile,
    SELinuxOption,
    SupplementalGroupsPolicy,
)

IMAGE_ROOT = ImageUser()
ROOT = "/var/lib/kubelet/seccomp"
POD, OWN = PodSecurityContext, SecurityContext
UNCONFINED, DEFAULT = (
    SecurityProfile(profile_type=one) for one in (ProfileType.UNCONFINED, ProfileType.RUNTIME_DEFAULT)
)


def convert(
    own: SecurityContext | None = None,
    of_pod: PodSecurityContext | None = None,
    user: ImageUser = IMAGE_ROOT,
    **options: Any,
) -> LinuxContainerSecurityContext:
    container = Container(name="main", security_context=own)
    pod = Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u"), spec=PodSpec(security_context=of_pod))
    return container_security_context(pod, container, SecurityInputs(user, ROOT, **options))


def number(value: int) -> Int64Value:
    return Int64Value(value=value)


@pytest.mark.parametrize(
    ("own", "of_pod", "field", "expected"),
    [
        (OWN(privileged=True), None, "privileged", True),
        (OWN(), POD(), "privileged", False),
        (OWN(read_only_root_filesystem=True), None, "readonly_rootfs", True),
        (OWN(run_as_user=5), POD(run_as_user=6), "run_as_user", number(5)),
        (OWN(), POD(run_as_user=6), "run_as_user", number(6)),
        (OWN(run_as_user=0), POD(run_as_user=6), "run_as_user", number(0)),
        (OWN(run_as_group=5), POD(run_as_group=6), "run_as_group", number(5)),
        (None, POD(run_as_group=6), "run_as_group", number(6)),
        (None, None, "run_as_group", None),
        (None, POD(fs_group=7, supplemental_groups=(8, 9)), "supplemental_groups", (7, 8, 9)),
        (None, POD(supplemental_groups_policy="Strict"), "supplemental_groups_policy", SupplementalGroupsPolicy.STRICT),
        (None, POD(supplemental_groups_policy="Merge"), "supplemental_groups_policy", SupplementalGroupsPolicy.MERGE),
        (None, None, "no_new_privs", False),
        (OWN(allow_privilege_escalation=True), None, "no_new_privs", False),
        (OWN(allow_privilege_escalation=False), None, "no_new_privs", True),
        (None, None, "capabilities", None),
        (
            OWN(capabilities=Capabilities(add=("NET_ADMIN",), drop=("ALL",))),
            None,
            "capabilities",
            Capability(add_capabilities=("NET_ADMIN",), drop_capabilities=("ALL",)),
        ),
        (
            OWN(se_linux_options=SELinuxOptions(level="s0:c1")),
            POD(se_linux_options=SELinuxOptions(user="u", level="s1")),
            "selinux_options",
            SELinuxOption(level="s0:c1"),
        ),
        (None, POD(se_linux_options=SELinuxOptions(user="u")), "selinux_options", SELinuxOption(user="u")),
        (OWN(proc_mount="Unmasked"), None, "masked_paths", ()),
        (OWN(proc_mount="Unmasked"), None, "readonly_paths", ()),
        (
            OWN(proc_mount="Default"),
            None,
            "readonly_paths",
            ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"),
        ),
    ],
)
def test_fields_of_a_container(
    own: SecurityContext | None, of_pod: PodSecurityContext | None, field: str, expected: object
) -> None:
    assert getattr(convert(own, of_pod), field) == expected


def test_paths_are_masked_by_default() -> None:
    assert {"/proc/kcore", "/proc/keys", "/sys/firmware", "/sys/devices/virtual/powercap"} <= set(
        convert().masked_paths
    )


@pytest.mark.parametrize(
    ("own", "of_pod", "by_default", "expected"),
    [
        (None, None, False, UNCONFINED),
        (None, None, True, DEFAULT),
        (SeccompProfile(type="Unconfined"), SeccompProfile(type="RuntimeDefault"), True, UNCONFINED),
        (None, SeccompProfile(type="RuntimeDefault"), False, DEFAULT),
        (
            SeccompProfile(type="Localhost", localhost_profile="sub/./p.json"),
            None,
            False,
            SecurityProfile(profile_type=ProfileType.LOCALHOST, localhost_ref=f"{ROOT}/sub/p.json"),
        ),
    ],
)
def test_seccomp(
    own: SeccompProfile | None, of_pod: SeccompProfile | None, by_default: bool, expected: SecurityProfile
) -> None:
    found = convert(OWN(seccomp_profile=own), POD(seccomp_profile=of_pod), seccomp_default=by_default)
    assert found.seccomp == expected


@pytest.mark.parametrize(
    ("own", "of_pod", "expected", "name"),
    [
        (None, None, None, ""),
        (AppArmorProfile(type="Unconfined"), AppArmorProfile(type="RuntimeDefault"), UNCONFINED, "unconfined"),
        (None, AppArmorProfile(type="RuntimeDefault"), DEFAULT, "runtime/default"),
        (
            AppArmorProfile(type="Localhost", localhost_profile="mine"),
            None,
            SecurityProfile(profile_type=ProfileType.LOCALHOST, localhost_ref="mine"),
            "localhost/mine",
        ),
    ],
)
def test_app_armor(
    own: AppArmorProfile | None, of_pod: AppArmorProfile | None, expected: SecurityProfile | None, name: str
) -> None:
    found = convert(OWN(app_armor_profile=own), POD(app_armor_profile=of_pod))
    assert (found.apparmor, found.apparmor_profile) == (expected, name)


@pytest.mark.parametrize(
    "own",
    [OWN(seccomp_profile=SeccompProfile(type="Localhost")), OWN(app_armor_profile=AppArmorProfile(type="Localhost"))],
)
def test_a_local_profile_needs_its_name(own: SecurityContext) -> None:
    with pytest.raises(ContainerConfigError, match="localhost"):
        convert(own)


@pytest.mark.parametrize(
    ("user", "own", "expected"),
    [
        (ImageUser(), None, (number(0), "")),
        (ImageUser(5), None, (number(5), "")),
        (ImageUser(5, "five"), None, (number(5), "")),
        (ImageUser(None, "five"), None, (None, "five")),
        (ImageUser(None, "five"), OWN(run_as_user=7), (number(7), "")),
    ],
)
def test_the_user_of_the_image(
    user: ImageUser, own: SecurityContext | None, expected: tuple[Int64Value | None, str]
) -> None:
    found = convert(own, None, user)
    assert (found.run_as_user, found.run_as_username) == expected


WHERE = '(pod: "p_ns(u)", container: main)'
ROOT_MESSAGE = f"container has runAsNonRoot and image will run as root {WHERE}"


@pytest.mark.parametrize(
    ("own", "of_pod", "user", "message"),
    [
        (None, None, ImageUser(0), ""),
        (OWN(run_as_non_root=False), POD(run_as_non_root=True), ImageUser(0), ""),
        (OWN(run_as_non_root=True, run_as_user=1), None, ImageUser(0), ""),
        (OWN(run_as_non_root=True), POD(run_as_user=1), ImageUser(0), ""),
        (OWN(run_as_non_root=True), None, ImageUser(1), ""),
        (
            OWN(run_as_non_root=True, run_as_user=0),
            None,
            ImageUser(1),
            f"container's runAsUser breaks non-root policy {WHERE}",
        ),
        (None, POD(run_as_non_root=True), ImageUser(0), ROOT_MESSAGE),
        (None, POD(run_as_non_root=True), ImageUser(), ROOT_MESSAGE),
        (
            None,
            POD(run_as_non_root=True),
            ImageUser(None, "nobody"),
            "container has runAsNonRoot and image has non-numeric user (nobody), "
            f"cannot verify user is non-root {WHERE}",
        ),
        (
            None,
            POD(run_as_non_root=True),
            ImageUser(1 << 31),
            "container has runAsNonRoot and image has an invalid user id (2147483648). (Must be 1-(2147483647)): "
            f"must be between 0 and 2147483647, inclusive {WHERE}",
        ),
    ],
)
def test_run_as_non_root(
    own: SecurityContext | None, of_pod: PodSecurityContext | None, user: ImageUser, message: str
) -> None:
    if not message:
        convert(own, of_pod, user)
        return
    with pytest.raises(ContainerConfigError) as raised:
        convert(own, of_pod, user)
    assert str(raised.value) == message


MODES = NamespaceMode


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (PodSpec(), NamespaceOption(network=MODES.POD, ipc=MODES.POD, pid=MODES.CONTAINER)),
        (PodSpec(host_network=True), NamespaceOption(network=MODES.NODE, ipc=MODES.POD, pid=MODES.CONTAINER)),
        (PodSpec(host_ipc=True, host_pid=True), NamespaceOption(network=MODES.POD, ipc=MODES.NODE, pid=MODES.NODE)),
        (PodSpec(share_process_namespace=True), NamespaceOption(network=MODES.POD, ipc=MODES.POD, pid=MODES.POD)),
        (
            PodSpec(share_process_namespace=True, host_pid=True),
            NamespaceOption(network=MODES.POD, ipc=MODES.POD, pid=MODES.NODE),
        ),
    ],
)
def test_namespaces(spec: PodSpec, expected: NamespaceOption) -> None:
    assert namespaces_of(Pod(spec=spec)) == expected


def test_a_sandbox_is_privileged_if_a_container_is() -> None:
    privileged = SecurityContext(privileged=True)
    specs = (
        PodSpec(containers=(Container(name="a"),)),
        PodSpec(containers=(Container(name="a", security_context=privileged),)),
        PodSpec(init_containers=(Container(name="a", security_context=privileged),)),
        PodSpec(ephemeral_containers=(EphemeralContainer(name="a", security_context=privileged),)),
    )
    assert [sandbox_security_context(Pod(spec=spec)).privileged for spec in specs] == [False, True, True, True]


def test_a_sandbox_has_the_context_of_the_pod() -> None:
    context = POD(
        run_as_user=1,
        run_as_group=2,
        fs_group=3,
        supplemental_groups=(4,),
        supplemental_groups_policy="Strict",
        seccomp_profile=SeccompProfile(type="Unconfined"),
        se_linux_options=SELinuxOptions(level="s0"),
    )
    found = sandbox_security_context(Pod(spec=PodSpec(security_context=context)))
    assert (found.run_as_user, found.run_as_group, found.supplemental_groups) == (number(1), number(2), (3, 4))
    assert found.supplemental_groups_policy == SupplementalGroupsPolicy.STRICT
    assert (found.seccomp, found.selinux_options) == (DEFAULT, SELinuxOption(level="s0"))
