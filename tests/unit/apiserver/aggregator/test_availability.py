# SPDX-License-Identifier: Apache-2.0
"""Tests of extension API server availability; an unavailable one does not affect others."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kubeloop.api.generated.apiregistration_v1 import APIService
from kubeloop.api.generated.core_v1 import Service
from kubeloop.api.generated.discovery_v1 import EndpointSlice
from kubeloop.api.scalars.wire import Time
from kubeloop.apiserver.aggregator.availability import (
    PASSED,
    failed_discovery,
    unavailable_condition,
    with_available_condition,
)
from kubeloop.apiserver.aggregator.endpoints import HostPort, ServiceUnresolvable, cluster_address, endpoint_address
from tests.unit.apiserver.aggregator.conftest import API_SERVICES, NAME, AggregatorHarness, Scenario
from tests.unit.apiserver.aggregator.extension_server import GROUP, ROOT, Authority

Play = Callable[[Scenario], None]
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
API: APIService = msgspec.convert({"spec": {"service": {"name": "a", "namespace": "n", "port": 443}}}, APIService)


def service(**spec: Any) -> Service:
    full = {"type": "ClusterIP", "clusterIP": "10.0.0.9", "ports": [{"name": "https", "port": 443}], **spec}
    return msgspec.convert({"metadata": {"name": "a"}, "spec": full}, Service)


def endpoints(address: str = "10.1.1.1", ready: bool | None = True, port: str = "https") -> EndpointSlice:
    one = {"addresses": [address], "conditions": {} if ready is None else {"ready": ready}}
    kind = "IPv6" if ":" in address else "IPv4"
    return msgspec.convert(
        {"addressType": kind, "endpoints": [one], "ports": [{"name": port, "port": 8443}]}, EndpointSlice
    )


@pytest.mark.parametrize(
    ("found", "slices", "reason", "message"),
    [
        (None, [], "ServiceNotFound", 'service/a in "n" is not present'),
        (service(ports=[]), [], "ServicePortError", 'service/a in "n" is not listening on port 443'),
        (service(), [], "EndpointsNotFound", 'cannot find endpointslices for service/a in "n"'),
        (
            service(),
            [endpoints(ready=False), endpoints(port="other")],
            "MissingEndpoints",
            'endpointslices for service/a in "n" have no addresses with port name "https"',
        ),
    ],
)
def test_unavailability_has_a_reason(found: Any, slices: Any, reason: str, message: str) -> None:
    verdict = unavailable_condition(API, found, slices)
    assert verdict is not None
    assert verdict == ("False", reason, message)


@pytest.mark.parametrize("found", [service(type="ExternalName", ports=[]), service(type="NodePort", ports=[])])
def test_service_without_managed_endpoints_is_called(found: Service) -> None:
    assert unavailable_condition(API, found, []) is None


def test_endpoint_with_unknown_readiness_counts_as_ready() -> None:
    assert unavailable_condition(API, service(), [endpoints(ready=None)]) is None


def test_condition_time_changes_with_its_status_only() -> None:
    first = msgspec.structs.replace(API, status=with_available_condition(API, PASSED, Time("2026-01-01T00:00:00Z")))
    later = with_available_condition(first, PASSED, Time("2027-01-01T00:00:00Z"))
    assert later == first.status
    failed = with_available_condition(first, failed_discovery("why"), Time("2027-01-01T00:00:00Z"))
    assert failed.conditions[0].last_transition_time == "2027-01-01T00:00:00Z"
    assert len(failed.conditions) == 1


def test_service_resolves_to_its_address_or_a_ready_endpoint() -> None:
    chance = random.Random(1)
    slices = [endpoints("fd00::1"), endpoints("10.1.1.1"), endpoints("10.1.1.2", ready=False)]
    assert cluster_address(service(), 443) == HostPort("10.0.0.9", 443)
    dual = service(ipFamilies=["IPv4", "IPv6"])
    assert {endpoint_address(dual, slices, 443, chance) for _ in range(20)} == {HostPort("10.1.1.1", 8443)}
    assert str(endpoint_address(service(ipFamilies=["IPv6"]), slices, 443, chance)) == "[fd00::1]:8443"
    assert cluster_address(service(type="ExternalName", externalName="x"), 444) == ("x", 444)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"clusterIP": "None"}, 'cannot route to service with ClusterIP "None"'),
        ({"ports": []}, 'no service port 443 found for service "a"'),
    ],
)
def test_unresolvable_service_has_an_error(spec: Any, message: str) -> None:
    with pytest.raises(ServiceUnresolvable) as raised:
        cluster_address(service(**spec), 443)
    assert str(raised.value) == message


def test_responding_server_is_available_and_in_discovery(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.register()
        assert await env.becomes("Passed") | {"lastTransitionTime": ""} == {
            "type": "Available",
            "status": "True",
            "reason": "Passed",
            "message": "all checks passed",
            "lastTransitionTime": "",
        }
        groups = (await env.json("/apis"))["groups"]
        assert groups[0]["name"] == "apiregistration.k8s.io"
        assert groups[-1]["name"] == GROUP
        assert (await env.json(f"/apis/{GROUP}"))["preferredVersion"]["version"] == "v1"
        told = (await env.json("/apis", accept=AGGREGATED))["items"][-1]
        assert told["versions"][0]["freshness"] == "Current"
        assert told["versions"][0]["resources"][0]["shortNames"] == ["gd"]
        index = (await env.json("/openapi/v3"))["paths"]
        link = index[ROOT[1:]]["serverRelativeURL"]
        assert f"{ROOT}/gardens" in (await env.json(link))["paths"]
        paths = (await env.json("/openapi/v2", accept="application/json"))["paths"]
        assert f"{ROOT}/gardens" in paths
        assert "/elsewhere" not in paths

    play(scenario)


def test_aggregated_discovery_is_used(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        env.gardens.all_at_once = True
        await env.available()
        told = (await env.json("/apis", accept=AGGREGATED))["items"][-1]
        assert told["versions"][0]["resources"][0]["verbs"] == ["list"]

    play(scenario)


async def measured(env: AggregatorHarness, name: str, reason: str = "") -> float:
    """Return a metric of the extension server."""
    answer = await env.ask("/metrics")
    body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
    of = f',reason="{reason}"' if reason else ""
    found = [one for one in body.decode().splitlines() if one.startswith(f'{name}{{name="{NAME}"')]
    line = found[0]
    assert of in line
    return float(line.rpartition(" ")[2])


def test_failing_server_is_stale_in_discovery(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        before = (await env.json("/apis"))["groups"]
        env.gardens.discovery_status = 403
        await env.register()
        said = await env.becomes("FailedDiscoveryCheck")
        url = f"https://localhost:{env.extension_port}{ROOT}"
        assert said["message"] == f"failing or missing response from {url}: bad status from {url}: 403"
        assert said["status"] == "False"
        refused = await env.ask(f"{ROOT}/gardens")
        assert (refused.status, refused.body) == (503, b"service unavailable\n")
        assert (await env.json("/apis"))["groups"][: len(before)] == before
        told = (await env.json("/apis", accept=AGGREGATED))["items"]
        assert told[-1]["versions"] == [{"version": "v1", "freshness": "Stale"}]
        assert (await env.json("/api/v1/namespaces/default"))["kind"] == "Namespace"
        assert await measured(env, "aggregator_unavailable_apiservice") == 1
        assert await measured(env, "aggregator_unavailable_apiservice_total", "FailedDiscoveryCheck") >= 1
        env.gardens.discovery_status = 200
        await env.becomes("Passed")
        assert await measured(env, "aggregator_unavailable_apiservice") == 0
        assert (await env.json(f"{ROOT}/gardens"))["kind"] == "GardenList"

    play(scenario)


def test_server_with_an_untrusted_certificate_is_not_called(play: Play, tmp_path: Any) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        (tmp_path / "other").mkdir()
        other = Authority(tmp_path / "other")
        await env.register(caBundle=base64.b64encode(other.pem).decode())
        said = await env.becomes("FailedDiscoveryCheck")
        assert "tls: failed to verify certificate: x509: " in said["message"]

    play(scenario)


def test_service_created_later_is_detected(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        await env.register(service={"name": "later", "namespace": "default", "port": 1})
        said = await env.becomes("ServiceNotFound")
        assert said["message"] == 'service/later in "default" is not present'
        external = {"metadata": {"name": "later"}, "spec": {"type": "ExternalName", "externalName": "localhost"}}
        await env.json("/api/v1/namespaces/default/services", external)
        said = await env.becomes("FailedDiscoveryCheck")
        assert said["message"].endswith("connect: connection refused")

    play(scenario)


def test_api_service_of_this_server_is_local(play: Play) -> None:
    async def scenario(env: AggregatorHarness) -> None:
        spec = {"group": "x.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
        await env.json(API_SERVICES, {"metadata": {"name": "v1.x.example.com"}, "spec": spec})
        found = await env.json(f"{API_SERVICES}/v1.x.example.com")
        assert found["status"]["conditions"][0]["message"] == "Local APIServices are always available"

    play(scenario)
