# SPDX-License-Identifier: Apache-2.0
"""Settings of sandboxes: host names, ports, labels."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import Container, ContainerPort, Pod, PodSecurityContext, PodSpec, Sysctl
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.kubelet.cri.config.sandbox_config import (
    HostnameError,
    SandboxInputs,
    hostname_and_domain,
    kernel_hostname,
    make_sandbox_config,
)
from kubeloop.kubelet.cri.messages.sandbox import DNSConfig, PodSandboxMetadata, PortMapping, Protocol

DOMAIN = "cluster.local"
INPUTS = SandboxInputs(3, "/var/log/pods/x", "/kubepods/podu", DOMAIN, DNSConfig(servers=("1.1.1.1",)))


def make_pod(spec: PodSpec, name: str = "pod") -> Pod:
    about = ObjectMeta(
        name=name,
        namespace="ns",
        uid="u",
        labels={"app": "x", "io.kubernetes.pod.uid": "forged"},
        annotations={"a": "b"},
    )
    return Pod(metadata=about, spec=spec)


LONG = "a" * 62 + "-.b" + "c" * 20


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        ("pod", PodSpec(), ("pod", "")),
        ("pod", PodSpec(hostname="host"), ("host", "")),
        ("pod", PodSpec(subdomain="sub"), ("pod", "sub.ns.svc.cluster.local")),
        ("pod", PodSpec(hostname="host", subdomain="sub"), ("host", "sub.ns.svc.cluster.local")),
        (LONG, PodSpec(), ("a" * 62, "")),
        ("x" * 63, PodSpec(), ("x" * 63, "")),
        ("pod", PodSpec(hostname_override="my.own.name", subdomain="sub"), ("my.own.name", "")),
        ("pod", PodSpec(hostname_override=LONG), ("a" * 62, "")),
    ],
)
def test_host_name_and_domain(name: str, spec: PodSpec, expected: tuple[str, str]) -> None:
    assert hostname_and_domain(make_pod(spec, name), DOMAIN) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (PodSpec(subdomain="sub"), "pod"),
        (PodSpec(subdomain="sub", set_hostname_as_fqdn=False), "pod"),
        (PodSpec(subdomain="sub", set_hostname_as_fqdn=True), "pod.sub.ns.svc.cluster.local"),
        (PodSpec(set_hostname_as_fqdn=True), "pod"),
        (
            PodSpec(hostname="h" * 36, subdomain="sub", set_hostname_as_fqdn=True),
            "h" * 36 + ".sub.ns.svc.cluster.local",
        ),
    ],
)
def test_name_for_the_kernel(spec: PodSpec, expected: str) -> None:
    assert kernel_hostname(make_pod(spec), DOMAIN) == expected


def test_a_full_name_that_the_kernel_does_not_take_is_an_error() -> None:
    name = "h" * 40 + ".sub.ns.svc.cluster.local"
    with pytest.raises(HostnameError) as raised:
        kernel_hostname(make_pod(PodSpec(hostname="h" * 40, subdomain="sub", set_hostname_as_fqdn=True)), DOMAIN)
    assert str(raised.value) == (
        f"failed to construct FQDN from pod hostname and cluster domain, FQDN {name} is too long "
        "(64 characters is the max, 65 characters requested)"
    )


def test_port_mappings_are_those_of_app_containers_without_repetitions() -> None:
    ports = (
        ContainerPort(container_port=80, host_port=8080, host_ip="127.0.0.1", protocol="TCP"),
        ContainerPort(container_port=80, host_port=8080, host_ip="127.0.0.1", protocol="TCP"),
        ContainerPort(container_port=80, host_port=8080, host_ip="::1"),
        ContainerPort(name="dns", container_port=53, protocol="UDP"),
        ContainerPort(name="dns", container_port=54, protocol="UDP"),
        ContainerPort(container_port=9, protocol="SCTP"),
    )
    spec = PodSpec(containers=(Container(name="a", ports=ports),), init_containers=(Container(name="i", ports=ports),))
    assert make_sandbox_config(make_pod(spec), INPUTS).port_mappings == (
        PortMapping(protocol=Protocol.TCP, container_port=80, host_port=8080, host_ip="127.0.0.1"),
        PortMapping(protocol=Protocol.TCP, container_port=80, host_port=8080, host_ip="::1"),
        PortMapping(protocol=Protocol.UDP, container_port=53),
        PortMapping(protocol=Protocol.SCTP, container_port=9),
    )


def test_settings_of_a_sandbox() -> None:
    context = PodSecurityContext(sysctls=(Sysctl(name="net.core.somaxconn", value="1024"),))
    config = make_sandbox_config(make_pod(PodSpec(security_context=context)), INPUTS)
    assert config.metadata == PodSandboxMetadata(name="pod", uid="u", namespace="ns", attempt=3)
    assert config.labels == {
        "app": "x",
        "io.kubernetes.pod.name": "pod",
        "io.kubernetes.pod.namespace": "ns",
        "io.kubernetes.pod.uid": "u",
    }
    assert (config.annotations, config.log_directory, config.hostname) == ({"a": "b"}, "/var/log/pods/x", "pod")
    assert config.dns_config == INPUTS.dns
    assert config.linux is not None
    assert config.linux.sysctls == {"net.core.somaxconn": "1024"}
    assert config.linux.cgroup_parent == "/kubepods/podu"


def test_a_pod_in_the_network_of_the_node_has_its_host_name() -> None:
    spec = PodSpec(host_network=True, hostname="h" * 63, subdomain="sub", set_hostname_as_fqdn=True)
    assert make_sandbox_config(make_pod(spec), INPUTS).hostname == ""


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (PodSpec(), {"kernel.shmmax", "fs.mqueue.msg_max", "net.core.somaxconn", "kernel.domainname"}),
        (PodSpec(host_network=True), {"kernel.shmmax", "fs.mqueue.msg_max"}),
        (PodSpec(host_ipc=True), {"net.core.somaxconn", "kernel.domainname"}),
        (
            PodSpec(host_users=False),
            {
                "kernel.shmmax",
                "fs.mqueue.msg_max",
                "net.core.somaxconn",
                "kernel.domainname",
                "user.max_ipc_namespaces",
            },
        ),
    ],
)
def test_default_sysctls_of_namespaces_of_the_pod(spec: PodSpec, expected: set[str]) -> None:
    names = ("kernel.shmmax", "fs.mqueue.msg_max", "net/core/somaxconn", "kernel.domainname", "user.max_ipc_namespaces")
    inputs = INPUTS._replace(default_sysctls=dict.fromkeys(names, "1"))
    linux = make_sandbox_config(make_pod(spec), inputs).linux
    assert linux is not None
    assert linux.sysctls.keys() == expected


def test_sysctls_of_the_pod_come_before_defaults() -> None:
    context = PodSecurityContext(sysctls=(Sysctl(name="net/core/somaxconn", value="2"),))
    inputs = INPUTS._replace(default_sysctls={"net.core.somaxconn": "1", "kernel.sem": "3"})
    linux = make_sandbox_config(make_pod(PodSpec(security_context=context)), inputs).linux
    assert linux is not None
    assert linux.sysctls == {"net.core.somaxconn": "2", "kernel.sem": "3"}
