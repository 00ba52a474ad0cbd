# SPDX-License-Identifier: Apache-2.0
"""Environment variables and the downward API."""

from __future__ import annotations

import pytest

from kubeloop.api.generated.core_v1 import (
    Container,
    EnvVar,
    EnvVarSource,
    HostIP,
    ObjectFieldSelector,
    Pod,
    PodSpec,
    PodStatus,
    ResourceFieldSelector,
    ResourceRequirements,
)
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.scalars.wire import Quantity
from kubeloop.kubelet.containers.environment import (
    expand,
    make_environment,
    resolve_field_ref,
    resolve_resource_field_ref,
    without_default_hostname,
)
from kubeloop.kubelet.runtime import EnvSourceValues

POD = Pod(
    metadata=ObjectMeta(name="p", namespace="ns", uid="u", labels={"b": "2", "a": 'say "1"'}, annotations={"x": "y"}),
    spec=PodSpec(node_name="n1", service_account_name="me", containers=(Container(name="c"),)),
    status=PodStatus(pod_ip="10.0.0.1", host_ip="10.1.0.1", host_ips=(HostIP(ip="10.1.0.1"), HostIP(ip="fd00::1"))),
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u"),
        ("metadata.labels['b']", "2"),
        ("metadata.annotations['x']", "y"),
        ("metadata.annotations['z']", ""),
        ("metadata.labels", 'a="say \\"1\\""\nb="2"'),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "me"),
        ("status.podIP", "10.0.0.1"),
        ("status.hostIPs", "10.1.0.1,fd00::1"),
    ],
)
def test_fields_of_the_pod(path: str, value: str) -> None:
    assert resolve_field_ref(POD, path) == value


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", "1", "2"),
        ("limits.cpu", "1m", "1500"),
        ("requests.memory", "1Mi", "64"),
        ("requests.memory", "", "67108864"),
        ("requests.cpu", "1", "0"),
    ],
)
def test_resources_in_units_of_the_divisor(resource: str, divisor: str, value: str) -> None:
    amounts = ResourceRequirements(limits={"cpu": Quantity("1500m")}, requests={"memory": Quantity("64Mi")})
    selector = ResourceFieldSelector(resource=resource, divisor=Quantity(divisor))
    assert resolve_resource_field_ref(POD, Container(name="c", resources=amounts), selector) == value


@pytest.mark.parametrize(
    ("text", "result"),
    [("$(A)-$(B)", "1-$(B)"), ("$$(A)", "$(A)"), ("$A", "$A"), ("plain", "plain"), ("$(A", "$(A")],
)
def test_references_are_expanded(text: str, result: str) -> None:
    assert expand(text, {"A": "1"}) == result


def test_variables_may_refer_to_earlier_ones() -> None:
    name = EnvVarSource(field_ref=ObjectFieldSelector(field_path="metadata.name"))
    env = (
        EnvVar(name="A", value_from=name),
        EnvVar(name="B", value="of $(A)"),
        EnvVar(name="C", value_from=EnvVarSource()),
    )
    assert make_environment(POD, Container(name="c", env=env), EnvSourceValues({"W": "whole"}, {"C": "secret"})) == {
        "HOSTNAME": "p",
        "W": "whole",
        "A": "p",
        "B": "of p",
        "C": "secret",
    }


def test_a_real_runtime_sets_the_host_name_unless_the_container_does() -> None:
    plain, own = Container(name="c"), Container(name="c", env=(EnvVar(name="HOSTNAME", value="own"),))
    found = EnvSourceValues({"HOSTNAME": "from"}, {})
    for container, sources, expected in ((plain, None, {}), (own, None, "own"), (plain, found, "from")):
        values = make_environment(POD, container, sources)
        real = without_default_hostname(values, container, sources)
        assert real == ({"HOSTNAME": expected} if expected else {})
