# SPDX-License-Identifier: Apache-2.0
"""The official Python client: objects of several kinds, errors, patches, pages, apply, the dynamic client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client, config, dynamic
from kubernetes.client.exceptions import ApiException

from tests.e2e.plane import Plane, config_map
from tests.e2e.workloads import deployment, pod


@pytest.fixture(scope="session")
def plane(server_alone: Plane) -> Plane:
    """Plane without controllers: the namespace has only the test's objects."""
    return server_alone


@pytest.fixture
def api(plane: Plane) -> Iterator[client.ApiClient]:
    with config.new_client_from_config(str(plane.kubeconfig)) as made:
        yield made


@pytest.fixture
def core(api: client.ApiClient) -> Any:
    return client.CoreV1Api(api)


def test_a_config_map_from_its_creation_to_its_deletion(core: Any, namespace: str) -> None:
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="one"), data={"colour": "blue"})
    made = core.create_namespaced_config_map(namespace, body)
    assert made.metadata.uid
    made.data["colour"] = "green"
    replaced = core.replace_namespaced_config_map("one", namespace, made)
    assert int(replaced.metadata.resource_version) > int(made.metadata.resource_version)
    assert core.read_namespaced_config_map("one", namespace).data == {"colour": "green"}
    core.delete_namespaced_config_map("one", namespace)
    with pytest.raises(ApiException) as refused:
        core.read_namespaced_config_map("one", namespace)
    assert (refused.value.status, refused.value.reason) == (404, "Not Found")


def test_a_deployment_and_its_scale(api: client.ApiClient, namespace: str) -> None:
    apps = client.AppsV1Api(api)
    made = apps.create_namespaced_deployment(namespace, deployment("web", replicas=2))
    assert made.spec.strategy.rolling_update.max_surge == "25%"
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    assert (scale.spec.replicas, scale.status.selector) == (2, "app=web")
    scale.spec.replicas = 4
    apps.replace_namespaced_deployment_scale("web", namespace, scale)
    assert apps.read_namespaced_deployment("web", namespace).spec.replicas == 4
    status = {"status": {"replicas": 4, "readyReplicas": 3}}
    apps.patch_namespaced_deployment_status("web", namespace, status)
    found = apps.read_namespaced_deployment("web", namespace)
    assert (found.status.ready_replicas, found.metadata.generation) == (3, 2)


def test_a_job_and_a_cron_job(api: client.ApiClient, namespace: str) -> None:
    batch = client.BatchV1Api(api)
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}
    job = batch.create_namespaced_job(namespace, {"metadata": {"name": "one"}, "spec": {"template": template}})
    assert job.spec.completions == 1
    assert job.spec.selector.match_labels
    spec = {"schedule": "@hourly", "jobTemplate": {"spec": {"template": template}}}
    cron = batch.create_namespaced_cron_job(namespace, {"metadata": {"name": "one"}, "spec": spec})
    assert cron.spec.concurrency_policy == "Allow"


def test_binding_assigns_a_pod_to_a_node(core: Any, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod("one"))
    binding = {"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "somewhere"}}
    core.create_namespaced_pod_binding("one", namespace, binding, _preload_content=False)
    found = core.read_namespaced_pod("one", namespace)
    assert found.spec.node_name == "somewhere"
    assert [c.status for c in found.status.conditions if c.type == "PodScheduled"] == ["True"]


def test_an_eviction_deletes_a_pod(core: Any, namespace: str) -> None:
    core.create_namespaced_pod(namespace, pod("one"))
    core.create_namespaced_pod_eviction("one", namespace, {"metadata": {"name": "one"}}, _preload_content=False)
    assert core.list_namespaced_pod(namespace).items == []


def test_a_stale_version_conflicts(core: Any, namespace: str) -> None:
    stale = core.create_namespaced_config_map(namespace, config_map("one"))
    core.patch_namespaced_config_map("one", namespace, {"data": {"a": "1"}})
    with pytest.raises(ApiException) as refused:
        core.replace_namespaced_config_map("one", namespace, stale)
    assert refused.value.status == 409
    assert '"reason":"Conflict"' in refused.value.body.replace(" ", "")


def test_a_precondition_guards_a_deletion(core: Any, namespace: str) -> None:
    made = core.create_namespaced_config_map(namespace, config_map("one"))
    wrong = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid="other"))
    with pytest.raises(ApiException) as refused:
        core.delete_namespaced_config_map("one", namespace, body=wrong)
    assert refused.value.status == 409
    right = client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=made.metadata.uid))
    core.delete_namespaced_config_map("one", namespace, body=right)


def test_an_existing_name_and_an_invalid_object_are_refused(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("one"))
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_config_map(namespace, config_map("one"))
    assert refused.value.status == 409
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod(namespace, {"metadata": {"name": "one"}, "spec": {"containers": []}})
    assert refused.value.status == 422
    assert "spec.containers" in refused.value.body


@pytest.mark.parametrize(
    ("kind", "patch", "wanted"),
    [
        ("application/merge-patch+json", {"data": {"a": None, "c": "3"}}, {"b": "2", "c": "3"}),
        ("application/strategic-merge-patch+json", {"data": {"$patch": "replace", "c": "3"}}, {"c": "3"}),
        ("application/json-patch+json", [{"op": "move", "from": "/data/a", "path": "/data/z"}], {"b": "2", "z": "1"}),
    ],
)
def test_patch_types(core: Any, namespace: str, kind: str, patch: Any, wanted: dict[str, str]) -> None:
    core.create_namespaced_config_map(namespace, config_map("one", a="1", b="2"))
    core.patch_namespaced_config_map("one", namespace, patch, _content_type=kind)
    assert core.read_namespaced_config_map("one", namespace).data == wanted


def test_a_failed_test_in_a_json_patch_changes_nothing(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("one", a="1"))
    patch = [{"op": "remove", "path": "/data/a"}, {"op": "test", "path": "/data/b", "value": "2"}]
    with pytest.raises(ApiException) as refused:
        core.patch_namespaced_config_map("one", namespace, patch)
    assert refused.value.status == 422
    assert core.read_namespaced_config_map("one", namespace).data == {"a": "1"}


def test_pages_show_one_revision(core: Any, namespace: str) -> None:
    names = [f"m{number:02}" for number in range(10)]
    for name in names:
        core.create_namespaced_config_map(namespace, config_map(name))
    page = core.list_namespaced_config_map(namespace, limit=4)
    assert page.metadata.remaining_item_count == 6
    core.delete_namespaced_config_map("m07", namespace)
    core.create_namespaced_config_map(namespace, config_map("m99"))
    seen, first = [item.metadata.name for item in page.items], page.metadata.resource_version
    while page.metadata._continue:
        page = core.list_namespaced_config_map(namespace, limit=4, _continue=page.metadata._continue)
        seen += [item.metadata.name for item in page.items]
        assert page.metadata.resource_version == first
    assert seen == names


def test_lists_at_a_version(core: Any, namespace: str) -> None:
    core.create_namespaced_config_map(namespace, config_map("one"))
    then = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.create_namespaced_config_map(namespace, config_map("two"))

    def names(match: str) -> list[str]:
        found = core.list_namespaced_config_map(namespace, resource_version=then, resource_version_match=match)
        return [item.metadata.name for item in found.items]

    assert names("Exact") == ["one"]
    assert names("NotOlderThan") == ["one", "two"]


def test_a_collection_is_deleted_by_label(core: Any, namespace: str) -> None:
    for name, tier in (("a", "front"), ("b", "back"), ("c", "front")):
        core.create_namespaced_pod(namespace, pod(name, tier=tier))
    core.delete_collection_namespaced_pod(namespace, label_selector="tier=front")
    assert [item.metadata.name for item in core.list_namespaced_pod(namespace).items] == ["b"]


def test_server_side_apply(core: Any, namespace: str) -> None:
    def apply(manager: str, force: bool | None = None, **data: str) -> Any:
        return core.patch_namespaced_config_map(
            "one",
            namespace,
            config_map("one", **data),
            field_manager=manager,
            force=force,
            _content_type="application/apply-patch+yaml",
        )

    apply("first", colour="blue")
    with pytest.raises(ApiException) as refused:
        apply("second", colour="green")
    assert refused.value.status == 409
    assert "FieldManagerConflict" in refused.value.body
    assert apply("second", force=True, colour="green").data == {"colour": "green"}


def test_the_dynamic_client(api: client.ApiClient, namespace: str) -> None:
    found = dynamic.DynamicClient(api).resources
    maps = found.get(api_version="v1", kind="ConfigMap")
    maps.create(body=config_map("one", colour="blue"), namespace=namespace)
    maps.server_side_apply(
        body=config_map("one", shape="round"), name="one", namespace=namespace, field_manager="dynamic"
    )
    assert maps.get(name="one", namespace=namespace).data.to_dict() == {"colour": "blue", "shape": "round"}
    assert found.get(api_version="apps/v1", kind="Deployment").namespaced
    assert [item.metadata.name for item in maps.get(namespace=namespace, label_selector="none").items] == []
    maps.delete(name="one", namespace=namespace)


def test_versions_and_groups(api: client.ApiClient) -> None:
    assert client.VersionApi(api).get_code().minor == "37"
    assert "apps" in [group.name for group in client.ApisApi(api).get_api_versions().groups]


def test_access_is_reviewed(api: client.ApiClient) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"}}}
    answer = client.AuthorizationV1Api(api).create_self_subject_access_review(review)
    assert answer.status.allowed is True
