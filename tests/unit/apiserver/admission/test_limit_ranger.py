# SPDX-License-Identifier: Apache-2.0
"""LimitRanger: what it fills in, and what it refuses in which words."""

from __future__ import annotations

import pytest

from kubeloop.api import errors


def _container(name="c", **resources):
    return {"name": name, "resources": resources}


def _message(caught):
    return caught.value.message.removeprefix('pods "x" is forbidden: ')


def test_containers_get_missing_defaults(cluster, pod):
    item = {"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "100m"}}
    cluster.add("limitranges", "r", "shop", spec={"limits": [item]})
    made = pod(
        containers=[_container("a"), _container("b", limits={"cpu": "2"}, requests={"cpu": "2"})],
        initContainers=[_container("i")],
    )
    resources = [container["resources"] for container in made["spec"]["containers"] + made["spec"]["initContainers"]]
    assert resources[0] == {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}}
    assert resources[1] == {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "2"}}
    assert resources[2] == resources[0]
    assert made["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": (
            "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a; "
            "memory limit for container b; cpu request for init container i; cpu, memory limit for init container i"
        )
    }


def test_range_without_defaults_leaves_pods_unchanged(cluster, pod):
    cluster.add("limitranges", "r", "shop", spec={"limits": [{"type": "Container"}]})
    assert "annotations" not in pod()["metadata"]


def test_ranges_of_other_namespaces_are_ignored(cluster, pod):
    cluster.add("limitranges", "r", "elsewhere", spec={"limits": [{"type": "Container", "min": {"cpu": "1"}}]})
    pod()


@pytest.mark.parametrize(
    ("item", "resources", "why"),
    [
        ({"min": {"cpu": "50m"}}, {}, "minimum cpu usage per Container is 50m.  No request is specified"),
        (
            {"min": {"cpu": "50m"}},
            {"requests": {"cpu": "10m"}},
            "minimum cpu usage per Container is 50m, but request is 10m",
        ),
        ({"max": {"cpu": "2"}}, {}, "maximum cpu usage per Container is 2.  No limit is specified"),
        (
            {"max": {"cpu": "2"}},
            {"limits": {"cpu": "2500m"}},
            "maximum cpu usage per Container is 2, but limit is 2500m",
        ),
        (
            {"max": {"memory": "1Gi"}},
            {"limits": {"memory": "8000Pi"}},
            "maximum memory usage per Container is 1Gi, but limit is 8000Pi",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "8"}},
            {"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}},
            "cpu max limit to request ratio per Container is 8, but provided ratio is 10.000000",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "8"}},
            {"limits": {"cpu": "1"}, "requests": {"cpu": "0"}},
            "cpu max limit to request ratio per Container is 8, but no request is specified or request is 0",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "8"}},
            {"requests": {"cpu": "1"}},
            "cpu max limit to request ratio per Container is 8, but no limit is specified or limit is 0",
        ),
        (
            {"min": {"cpu": "1", "memory": "1Gi"}},
            {},
            "[minimum cpu usage per Container is 1.  No request is specified, "
            "minimum memory usage per Container is 1Gi.  No request is specified]",
        ),
    ],
)
def test_container_out_of_range_is_rejected(cluster, pod, item, resources, why):
    cluster.add("limitranges", "r", "shop", spec={"limits": [{"type": "Container", **item}]})
    with pytest.raises(errors.Forbidden) as caught:
        pod(containers=[_container(**resources)])
    assert _message(caught) == why


@pytest.mark.parametrize("resources", [{"limits": {"cpu": "2"}}, {"limits": {"cpu": "8"}, "requests": {"cpu": "1"}}])
def test_container_at_the_bounds_is_accepted(cluster, pod, resources):
    item = {"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "8"}, "maxLimitRequestRatio": {"cpu": "8"}}
    cluster.add("limitranges", "r", "shop", spec={"limits": [item]})
    pod(containers=[_container(**resources)])


def test_pod_total_is_checked(cluster, pod):
    cluster.add("limitranges", "r", "shop", spec={"limits": [{"type": "Pod", "max": {"cpu": "3"}}]})
    with pytest.raises(errors.Forbidden) as caught:
        pod(containers=[_container("a", limits={"cpu": "2"}), _container("b", limits={"cpu": "1500m"})])
    assert _message(caught) == "maximum cpu usage per Pod is 3, but limit is 3500m"


def test_pod_level_resources_override_the_sum(cluster, pod):
    cluster.add("limitranges", "r", "shop", spec={"limits": [{"type": "Pod", "max": {"cpu": "3"}}]})
    pod(containers=[_container("a", limits={"cpu": "4"})], resources={"limits": {"cpu": "3"}, "requests": {"cpu": "3"}})


@pytest.mark.parametrize(
    ("size", "why"),
    [
        ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
        ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
    ],
)
def test_claims_are_checked_by_their_requests(cluster, writes, size, why):
    item = {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    cluster.add("limitranges", "r", "shop", spec={"limits": [item]})
    with pytest.raises(errors.Forbidden) as caught:
        writes.create("persistentvolumeclaims", "shop", spec={"resources": {"requests": {"storage": size}}})
    assert caught.value.message == f'persistentvolumeclaims "x" is forbidden: {why}'


def test_only_resize_updates_of_a_pod_are_checked(cluster, writes):
    cluster.add("limitranges", "r", "shop", spec={"limits": [{"type": "Container", "max": {"cpu": "1"}}]})
    new = {"spec": {"containers": [_container(limits={"cpu": "2"})]}}
    writes.update("pods", "shop", {}, new)
    with pytest.raises(errors.Forbidden, match="maximum cpu usage per Container is 1, but limit is 2"):
        writes.update("pods", "shop", {}, new, subresource="resize")


def test_objects_being_deleted_are_ignored(cluster, writes):
    cluster.add("limitranges", "r", "shop", spec={"limits": [{"type": "Container", "max": {"cpu": "1"}}]})
    old = {"metadata": {"deletionTimestamp": "2026-05-10T12:00:00Z"}}
    writes.update("pods", "shop", old, {"spec": {"containers": [_container()]}}, subresource="resize")
