# SPDX-License-Identifier: Apache-2.0
"""ResourceQuota: what is charged to which quota, what is refused in which words, and that it is exact."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kubeloop.api import errors
from kubeloop.apiserver.admission import AdmissionChain
from kubeloop.apiserver.admission.lookup import RegistryLookup
from kubeloop.apiserver.admission.plugins.quota.quota_accessor import StoreQuotaAccessor
from kubeloop.apiserver.admission.plugins.quota.resource_quota import ResourceQuotaPlugin
from tests.unit.apiserver.conftest import Api, ManualClock

CONFIG_MAPS = "/api/v1/namespaces/shop/configmaps"
QUOTAS = "/api/v1/namespaces/shop/resourcequotas"


def _quota(cluster, hard, used=None, name="q", **spec):
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used}
    cluster.add("resourcequotas", name, "shop", spec={"hard": hard, **spec}, status=status)


def _used(cluster, name="q"):
    return dict(cluster.get_object("resourcequotas", "shop", name).status.used)


def _requesting(cpu, **more):
    return {"name": "web", "image": "nginx", "resources": {"requests": {"cpu": cpu}, **more}}


def _refusal(caught):
    return caught.value.message.partition(" is forbidden: ")[2]


def test_pod_is_charged_for_its_requests(cluster, pod):
    _quota(cluster, {"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"})
    pod(containers=[_requesting("600m", limits={"memory": "1Gi"})])
    assert _used(cluster) == {"pods": "1", "requests.cpu": "600m", "limits.memory": "1Gi"}


def test_pod_exceeding_a_quota_is_rejected_with_amounts_and_not_charged(cluster, pod):
    _quota(cluster, {"pods": "2", "requests.cpu": "1"}, {"pods": "1", "requests.cpu": "600m"})
    with pytest.raises(errors.Forbidden) as caught:
        pod(containers=[_requesting("500m")])
    assert _refusal(caught) == (
        "exceeded quota: q, requested: requests.cpu=500m, used: requests.cpu=600m, limited: requests.cpu=1"
    )
    assert _used(cluster) == {"pods": "1", "requests.cpu": "600m"}


def test_quota_on_cpu_requires_it_in_every_container(cluster, pod):
    _quota(cluster, {"requests.cpu": "1", "limits.memory": "1Gi"})
    with pytest.raises(errors.Forbidden) as caught:
        pod(containers=[_requesting("1"), {"name": "b"}], initContainers=[{"name": "a"}])
    assert _refusal(caught) == "failed quota: q: must specify limits.memory for: a,b,web; requests.cpu for: a,b"


def test_uncounted_quota_rejects_everything(cluster, pod):
    _quota(cluster, {"pods": "2", "count/pods": "1"}, {"pods": "0"})
    with pytest.raises(errors.Forbidden) as caught:
        pod()
    assert _refusal(caught) == "status unknown for quota: q, resources: count/pods,pods"


def test_quota_without_status_is_not_enforced(cluster, pod):
    cluster.add("resourcequotas", "q", "shop", spec={"hard": {"pods": "0"}})
    pod()


def test_only_quotas_with_matching_scopes_are_charged(cluster, pod):
    _quota(cluster, {"pods": "5"}, name="idle", scopes=["BestEffort"])
    _quota(cluster, {"pods": "5"}, name="busy", scopes=["NotBestEffort", "NotTerminating"])
    pod()
    pod(containers=[_requesting("1")])
    pod(containers=[_requesting("1")], activeDeadlineSeconds=5)
    assert (_used(cluster, "idle"), _used(cluster, "busy")) == ({"pods": "1"}, {"pods": "1"})


def test_nothing_is_charged_if_another_quota_rejects(cluster, pod):
    _quota(cluster, {"pods": "5"}, name="a")
    _quota(cluster, {"pods": "0"}, name="b")
    with pytest.raises(errors.Forbidden, match="exceeded quota: b"):
        pod()
    assert _used(cluster, "a") == {"pods": "0"}


def test_objects_are_counted_by_new_and_old_names(cluster, writes):
    _quota(cluster, {"count/deployments.apps": "1", "count/secrets": "1", "secrets": "9"})
    writes.create("deployments", "shop")
    writes.create("secrets", "shop")
    assert _used(cluster) == {"count/deployments.apps": "1", "count/secrets": "1", "secrets": "1"}
    with pytest.raises(errors.Forbidden, match=r"requested: count/deployments.apps=1"):
        writes.create("deployments", "shop")


def test_events_and_reviews_are_free(cluster, writes):
    _quota(cluster, {"count/events": "0"})
    writes.create("events", "shop")


def test_service_is_charged_for_added_ports(cluster, writes):
    _quota(cluster, {"services": "2", "services.nodeports": "2", "services.loadbalancers": "1"})
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    writes.create("services", "shop", spec={"ports": ports})
    writes.update("services", "shop", {"spec": {"ports": ports}}, {"spec": {"type": "NodePort", "ports": ports}})
    assert _used(cluster) == {"services": "1", "services.nodeports": "2", "services.loadbalancers": "0"}
    two = {"spec": {"type": "NodePort", "ports": ports}}
    three = {"spec": {"type": "NodePort", "ports": [*ports, {"port": 3}]}}
    with pytest.raises(errors.Forbidden, match=r"requested: services.nodeports=1, used: services.nodeports=2"):
        writes.update("services", "shop", two, three)


def test_claim_status_expansion_is_charged_beyond_the_limit(cluster, writes):
    _quota(cluster, {"requests.storage": "2Gi", "fast.storageclass.storage.k8s.io/requests.storage": "9Gi"})

    def claim(size, **status):
        return {
            "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": size}}},
            "status": status,
        }

    writes.create("persistentvolumeclaims", "shop", **claim("2Gi"))
    with pytest.raises(errors.Forbidden, match=r"requested: requests.storage=1Gi, used: requests.storage=2Gi"):
        writes.create("persistentvolumeclaims", "shop", **claim("1Gi"))
    grown = claim("2Gi", allocatedResources={"storage": "5Gi"})
    writes.update("persistentvolumeclaims", "shop", claim("2Gi"), grown, subresource="status")
    assert set(_used(cluster).values()) == {"5Gi"}


def test_resource_claim_is_charged_by_class_and_extended_resource(cluster, writes):
    cluster.add("deviceclasses", "gpu", spec={"extendedResourceName": "example.com/gpu"})
    names = (
        "gpu.deviceclass.resource.k8s.io/devices",
        "requests.example.com/gpu",
        "count/resourceclaims.resource.k8s.io",
    )
    _quota(cluster, dict.fromkeys(names, "4"))
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 3}
    devices = {"requests": [{"name": "r", "exactly": exactly}]}
    writes.create("resourceclaims", "shop", spec={"devices": devices})
    assert _used(cluster) == dict(zip(names, "331", strict=True))


def test_extended_resources_charged_to_a_pod_are_not_charged_to_its_claim(cluster, writes):
    cluster.add("deviceclasses", "gpu", spec={"extendedResourceName": "example.com/gpu"})
    asking = {"name": "c", "resources": {"requests": {"example.com/gpu": "2"}}}
    cluster.add("pods", "p", "shop", {"uid": "u"}, spec={"containers": [asking]})
    _quota(cluster, {"requests.example.com/gpu": "4", "requests.deviceclass.resource.kubernetes.io/gpu": "9"})
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    note = {"resource.kubernetes.io/extended-resource-claim": "true"}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
    writes.create(
        "resourceclaims",
        "shop",
        metadata={"ownerReferences": [owner], "annotations": note},
        spec={"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    )
    assert list(_used(cluster).values()) == ["0", "2"]


# -- in a whole server ------------------------------------------------------------------------------------------------


class _QuotaApi(Api):
    """Return a server whose writes use this plugin only."""

    def admission(self) -> AdmissionChain:
        lookup = RegistryLookup(self.registry)
        return AdmissionChain([ResourceQuotaPlugin(lookup, StoreQuotaAccessor(self.registry, lookup))])


@pytest.fixture
def server() -> Iterator[_QuotaApi]:
    """Return a server with a quota of ten config maps in `shop`."""
    with asyncio.Runner() as runner:
        api = _QuotaApi(runner, ManualClock())
        hard = {"configmaps": "10", "count/configmaps": "10"}
        api.made(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
        assert api.patch("merge", f"{QUOTAS}/q/status", {"status": status}).status == 200
        yield api


def test_concurrent_writers_never_exceed_the_quota(server):
    answers = server.post_at_once([(CONFIG_MAPS, {"metadata": {"name": f"m{i}"}}) for i in range(64)])
    assert sorted(answer.status for answer in answers) == [201] * 10 + [403] * 54
    assert len(server.get(CONFIG_MAPS).body["items"]) == 10
    assert server.get(f"{QUOTAS}/q").body["status"]["used"] == {"configmaps": "10", "count/configmaps": "10"}


def test_concurrent_writes_of_one_object_are_all_charged_until_recounted(server):
    answers = server.post_at_once([(CONFIG_MAPS, {"metadata": {"name": "m"}})] * 3)
    assert sorted(answer.status for answer in answers) == [201, 409, 409]
    assert server.get(f"{QUOTAS}/q").body["status"]["used"]["configmaps"] == "3"


def test_charged_status_is_owned_by_the_server(server):
    server.made(CONFIG_MAPS, {"metadata": {"name": "m"}})
    entries = server.get(f"{QUOTAS}/q").body["metadata"]["managedFields"]
    entry = next(entry for entry in entries if entry["manager"] == "kube-apiserver")
    assert (entry["operation"], entry["subresource"]) == ("Update", "status")
    assert entry["fieldsV1"] == {"f:status": {"f:used": {"f:configmaps": {}, "f:count/configmaps": {}}}}


def test_dry_run_is_rejected_like_a_write_but_not_charged(server):
    assert server.post(f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "m"}}).status == 201
    assert server.get(f"{QUOTAS}/q").body["status"]["used"]["configmaps"] == "0"
    for i in range(10):
        server.made(CONFIG_MAPS, {"metadata": {"name": f"m{i}"}})
    assert server.post(f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"name": "m"}}).status == 403


def test_deleted_quota_is_not_enforced(server):
    server.ask("DELETE", f"{QUOTAS}/q")
    for i in range(11):
        server.made(CONFIG_MAPS, {"metadata": {"name": f"m{i}"}})
