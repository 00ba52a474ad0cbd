# SPDX-License-Identifier: Apache-2.0
"""Settings of containers: expansion, labels, annotations, stop signals."""

from __future__ import annotations

import json

import pytest

from kubeloop.api.generated.core_v1 import (
    Container,
    ContainerPort,
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.kubelet.cm.run_options import RunOptions
from kubeloop.kubelet.cri.config.container_config import ContainerInputs, make_container_config
from kubeloop.kubelet.cri.config.labels import ContainerFacts, container_annotations, read_container_facts
from kubeloop.kubelet.cri.config.linux_resources import MachineMemory
from kubeloop.kubelet.cri.config.security_context import ImageUser
from kubeloop.kubelet.cri.messages.container import (
    CDIDevice,
    ContainerConfig,
    ContainerMetadata,
    Device,
    KeyValue,
    Mount,
    Signal,
)
from kubeloop.kubelet.cri.messages.image import ImageSpec
from kubeloop.kubelet.cri.messages.security import IDMapping, NamespaceMode, UserNamespace

ABOUT = ObjectMeta(name="pod", namespace="ns", uid="u", deletion_grace_period_seconds=5)
POD = Pod(metadata=ABOUT, spec=PodSpec(termination_grace_period_seconds=30))
MOUNT = Mount(container_path="/data", host_path="/host")


def convert(container: Container, **environment: str) -> ContainerConfig:
    inputs = ContainerInputs(2, "sha256:1", ImageUser(5), environment, (MOUNT,), MachineMemory(1 << 30), "/seccomp")
    return make_container_config(POD, container, inputs)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("$(A)", "1"),
        ("$(A)$(B)", "12"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(MISSING)", "$(MISSING)"),
        ("$A", "$A"),
        ("$(A", "$(A"),
        ("$", "$"),
        ("$$", "$"),
        ("$(EMPTY)x", "x"),
        ("a$()b", "a$()b"),
    ],
)
def test_commands_and_arguments_are_expanded(word: str, expected: str) -> None:
    config = convert(Container(name="c", command=(word,), args=("x", word)), A="1", B="2", EMPTY="")
    assert (config.command, config.args) == ((expected,), ("x", expected))


def test_settings_of_a_container() -> None:
    container = Container(name="c", image="busybox", working_dir="/w", stdin=True, stdin_once=True, tty=True)
    config = convert(container, A="1", B="\N{SNOWMAN}")
    assert config.metadata == ContainerMetadata(name="c", attempt=2)
    assert config.image == ImageSpec(image="sha256:1", user_specified_image="busybox")
    assert config.envs == (KeyValue(key="A", value=b"1"), KeyValue(key="B", value="\N{SNOWMAN}".encode()))
    assert (config.log_path, config.working_dir, config.mounts) == ("c/2.log", "/w", (MOUNT,))
    assert (config.stdin, config.stdin_once, config.tty) == (True, True, True)
    assert config.labels == {
        "io.kubernetes.container.name": "c",
        "io.kubernetes.pod.name": "pod",
        "io.kubernetes.pod.namespace": "ns",
        "io.kubernetes.pod.uid": "u",
    }


def test_annotations_of_a_container() -> None:
    hook = LifecycleHandler(exec=ExecAction(command=("true",)))
    container = Container(
        name="c",
        termination_message_path="/dev/log",
        termination_message_policy="File",
        lifecycle=Lifecycle(pre_stop=hook),
        ports=(ContainerPort(name="http", container_port=80, protocol="TCP"),),
    )
    found = container_annotations(POD, container, 4)
    assert len(found.pop("io.kubernetes.container.hash")) == 16
    assert json.loads(found.pop("io.kubernetes.container.preStopHandler")) == {"exec": {"command": ["true"]}}
    ports = [{"name": "http", "containerPort": 80, "protocol": "TCP"}]
    assert json.loads(found.pop("io.kubernetes.container.ports")) == ports
    assert found == {
        "io.kubernetes.container.restartCount": "4",
        "io.kubernetes.container.terminationMessagePath": "/dev/log",
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.pod.deletionGracePeriod": "5",
        "io.kubernetes.pod.terminationGracePeriod": "30",
    }


def test_annotations_are_read_again() -> None:
    container = Container(name="c", termination_message_path="/m", termination_message_policy="File")
    assert read_container_facts(container_annotations(POD, container, 4)) == ContainerFacts(4, "/m", "File")
    assert read_container_facts({}) == ContainerFacts(0, "", "")
    assert read_container_facts({"io.kubernetes.container.restartCount": "-x"}) == ContainerFacts(0, "", "")


def test_a_changed_container_has_another_hash() -> None:
    key = "io.kubernetes.container.hash"
    one, two = (container_annotations(POD, Container(name="c", image=image), 0)[key] for image in ("a", "b"))
    assert one != two


@pytest.mark.parametrize(
    ("name", "number"),
    [
        (None, 0),
        ("SIGABRT", 1),
        ("SIGTERM", 23),
        ("SIGUSR1", 29),
        ("SIGRTMIN", 35),
        ("SIGRTMIN+1", 36),
        ("SIGRTMIN+15", 50),
        ("SIGRTMAX-14", 51),
        ("SIGRTMAX-1", 64),
        ("SIGRTMAX", 65),
    ],
)
def test_stop_signals(name: str | None, number: int) -> None:
    assert convert(Container(name="c", lifecycle=Lifecycle(stop_signal=name))).stop_signal == Signal(number)
    assert convert(Container(name="c")).stop_signal == Signal.RUNTIME_DEFAULT


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (PodSpec(), (NamespaceMode.TARGET, "abc")),
        (PodSpec(share_process_namespace=True), (NamespaceMode.POD, "")),
        (PodSpec(host_pid=True), (NamespaceMode.NODE, "")),
    ],
)
def test_process_namespace_of_a_target(spec: PodSpec, expected: tuple[NamespaceMode, str]) -> None:
    inputs = ContainerInputs(0, "i", ImageUser(5), {}, (), MachineMemory(1 << 30), "/seccomp", target_id="abc")
    config = make_container_config(Pod(metadata=ABOUT, spec=spec), Container(name="c"), inputs)
    assert config.linux is not None
    assert config.linux.security_context is not None
    found = config.linux.security_context.namespace_options
    assert found is not None
    assert (found.pid, found.target_id) == expected


def test_the_user_namespace_applies_to_the_container_and_to_its_mounts() -> None:
    ids = (IDMapping(host_id=65536, container_id=0, length=65536),)
    namespace = UserNamespace(mode=NamespaceMode.POD, uids=ids, gids=ids)
    inputs = ContainerInputs(0, "i", ImageUser(5), {}, (MOUNT,), MachineMemory(1 << 30), "/s", user_namespace=namespace)
    config = make_container_config(POD, Container(name="c"), inputs)
    assert config.linux is not None
    assert config.linux.security_context is not None
    assert config.linux.security_context.namespace_options is not None
    assert config.linux.security_context.namespace_options.userns_options == namespace
    assert [(one.uid_mappings, one.gid_mappings) for one in config.mounts] == [(ids, ids)]


def test_options_of_resource_managers_precede_those_of_the_spec() -> None:
    other = Mount(container_path="/dev/x", host_path="/x")
    options = RunOptions(
        environment={"A": "device", "D": "1"},
        mounts=(other,),
        devices=(Device(container_path="/dev/d", host_path="/dev/d", permissions="rw"),),
        cdi_devices=(CDIDevice(name="vendor.com/gpu=0"),),
        annotations={"io.kubernetes.container.restartCount": "7", "x": "y"},
        cpuset_cpus="1-2",
        cpuset_mems="0",
        has_exclusive_cpus=True,
    )
    inputs = ContainerInputs(
        0, "i", ImageUser(5), {"A": "spec"}, (MOUNT,), MachineMemory(1 << 30), "/seccomp", options=options
    )
    resources = ResourceRequirements(limits={"cpu": "2"}, requests={"cpu": "2"})
    found = make_container_config(POD, Container(name="c", args=("$(D)",), resources=resources), inputs)
    assert {one.key: one.value for one in found.envs} == {"A": b"spec", "D": b"1"}
    assert found.args == ("1",)
    assert found.mounts == (other, MOUNT)
    assert found.devices == options.devices
    assert found.cdi_devices == options.cdi_devices
    assert (found.annotations["x"], found.annotations["io.kubernetes.container.restartCount"]) == ("y", "0")
    assert found.linux is not None
    assert found.linux.resources is not None
    assert (found.linux.resources.cpuset_cpus, found.linux.resources.cpuset_mems) == ("1-2", "0")
    assert found.linux.resources.cpu_quota == -1
