# SPDX-License-Identifier: Apache-2.0
"""Tests of the variables that lead containers to services."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.api.generated.core_v1 import Container, EnvVar, Pod, PodSpec, Service, ServicePort, ServiceSpec
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.kubelet.containers.environment import make_environment
from kubeloop.kubelet.containers.service_environment import service_environment


def service(name: str, namespace: str = "shop", address: str = "10.0.0.5", *ports: ServicePort) -> Service:
    found = ports or (ServicePort(port=80, name="web-ui"), ServicePort(port=53, protocol="UDP", name="dns"))
    return Service(
        metadata=ObjectMeta(name=name, namespace=namespace), spec=ServiceSpec(cluster_ip=address, ports=found)
    )


API = service("kubernetes", "default", "10.96.0.1", ServicePort(port=443, name="https"))


def pod(**spec: Any) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", namespace="shop"), spec=PodSpec(**spec))


def test_variables_of_a_service() -> None:
    assert service_environment(pod(), [service("my-db")]) == {
        "MY_DB_SERVICE_HOST": "10.0.0.5",
        "MY_DB_SERVICE_PORT": "80",
        "MY_DB_SERVICE_PORT_WEB_UI": "80",
        "MY_DB_SERVICE_PORT_DNS": "53",
        "MY_DB_PORT": "tcp://10.0.0.5:80",
        "MY_DB_PORT_80_TCP": "tcp://10.0.0.5:80",
        "MY_DB_PORT_80_TCP_PROTO": "tcp",
        "MY_DB_PORT_80_TCP_PORT": "80",
        "MY_DB_PORT_80_TCP_ADDR": "10.0.0.5",
        "MY_DB_PORT_53_UDP": "udp://10.0.0.5:53",
        "MY_DB_PORT_53_UDP_PROTO": "udp",
        "MY_DB_PORT_53_UDP_PORT": "53",
        "MY_DB_PORT_53_UDP_ADDR": "10.0.0.5",
    }


@pytest.mark.parametrize(
    ("links", "hosts"), [(True, {"KUBERNETES", "DB"}), (None, {"KUBERNETES", "DB"}), (False, {"KUBERNETES"})]
)
def test_links_to_services_of_the_namespace_can_be_off(links: bool | None, hosts: set[str]) -> None:
    services = [API, service("db"), service("other", "elsewhere"), service("headless", "shop", "None")]
    found = service_environment(pod(enable_service_links=links), services)
    assert {name.removesuffix("_SERVICE_HOST") for name in found if name.endswith("_SERVICE_HOST")} == hosts


def test_address_of_version_6_is_in_brackets() -> None:
    assert service_environment(pod(), [service("db", "shop", "fd00::5")])["DB_PORT"] == "tcp://[fd00::5]:80"


def test_container_can_use_and_replace_variables_of_services() -> None:
    env = (EnvVar(name="URL", value="https://$(KUBERNETES_SERVICE_HOST)"), EnvVar(name="KUBERNETES_PORT", value="own"))
    values = make_environment(pod(), Container(name="c", env=env), services=service_environment(pod(), [API]))
    assert (values["URL"], values["KUBERNETES_PORT"]) == ("https://10.96.0.1", "own")
    assert values["KUBERNETES_SERVICE_PORT"] == "443"
