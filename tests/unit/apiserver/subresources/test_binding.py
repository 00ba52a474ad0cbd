# SPDX-License-Identifier: Apache-2.0
"""A pod gets its node once, by a binding."""

from __future__ import annotations

import pytest

PODS = "/api/v1/namespaces/shop/pods"


def binding(name="p", node="n1", kind="Node", **metadata):
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"kind": kind, "name": node},
    }


def test_bound_pod_has_node_and_scheduled_condition(api, pods):
    path = pods("p")
    answer = api.post(f"{path}/binding", binding())
    assert (answer.status, answer.body["status"], answer.body["code"]) == (201, "Success", 201)
    pod = api.get(path).body
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-05-10T12:00:00Z",
        }
    ]


def test_binding_keeps_generation_and_managed_fields(api, pods):
    before = api.get(pods("p")).body["metadata"]
    api.post(f"{PODS}/p/binding", binding())
    after = api.get(f"{PODS}/p").body["metadata"]
    assert (after["generation"], after["managedFields"]) == (before["generation"], before["managedFields"])


def test_binding_adds_labels_and_annotations(api, pods):
    path = pods("p", {"app": "web", "zone": "old"})
    legacy = {"pod.beta.kubernetes.io/init-containers": "[]"}
    api.post(f"{path}/binding", binding(labels={"zone": "new"}, annotations={"by": "scheduler", **legacy}))
    meta = api.get(path).body["metadata"]
    assert meta["labels"] == {"app": "web", "zone": "new"}
    assert meta["annotations"] == {"by": "scheduler"}


def test_binding_clears_the_nominated_node(api, pods):
    path = pods("p", status={"nominatedNodeName": "n9"})
    api.post(f"{path}/binding", binding())
    assert "nominatedNodeName" not in api.get(path).body["status"]


def test_pod_is_bound_through_the_bindings_resource(api, pods):
    path = pods("p")
    assert api.post("/api/v1/namespaces/shop/bindings", binding()).status == 201
    assert api.get(path).body["spec"]["nodeName"] == "n1"


def test_a_dry_run_binds_nothing(api, pods):
    path = pods("p")
    assert api.post(f"{path}/binding?dryRun=All", binding()).status == 201
    assert "nodeName" not in api.get(path).body["spec"]


def test_second_binding_conflicts(api, pods):
    path = pods("p")
    api.post(f"{path}/binding", binding())
    answer = api.post(f"{path}/binding", binding(node="n2"))
    assert answer.status == 409
    assert answer.body["message"] == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )


def test_one_of_several_concurrent_bindings_wins(api, pods):
    path = pods("p")
    answers = api.post_at_once([(f"{path}/binding", binding(node=f"n{number}")) for number in range(4)])
    assert sorted(answer.status for answer in answers) == [201, 409, 409, 409]
    (winner,) = [number for number, answer in enumerate(answers) if answer.status == 201]
    assert api.get(path).body["spec"]["nodeName"] == f"n{winner}"


def test_pod_with_scheduling_gates_is_not_bound(api, pods):
    path = pods("p", schedulingGates=[{"name": "quota"}])
    answer = api.post(f"{path}/binding", binding())
    assert answer.body["message"].endswith("pod p has non-empty .spec.schedulingGates")


def test_pod_being_deleted_is_not_bound(api, pods):
    path = pods("p")
    api.patch("merge", path, {"metadata": {"finalizers": ["example.org/wait"]}})
    api.ask("DELETE", path)
    answer = api.post(f"{path}/binding", binding())
    assert answer.body["message"].endswith("pod p is being deleted, cannot be assigned to a host")


@pytest.mark.parametrize(
    ("demand", "told"),
    [
        ({"uid": "other"}, "UID in precondition: other, UID in object meta: "),
        ({"resourceVersion": "1"}, "ResourceVersion in precondition: 1, ResourceVersion in object meta: "),
    ],
)
def test_binding_preconditions_are_checked(api, pods, demand, told):
    pods("before")
    answer = api.post(f"{pods('p')}/binding", binding(**demand))
    assert answer.status == 409
    assert (
        f"Key: /registry/pods/shop/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {told}"
        in (answer.body["message"])
    )


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (binding(kind="Pod"), 500, 'target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>"'),
        (binding(node=""), 500, "target.name: Required value"),
        (binding(name="other"), 400, "name in URL does not match name in Binding object"),
    ],
)
def test_invalid_binding_is_rejected(api, pods, body, status, message):
    answer = api.post(f"{pods('p')}/binding", body)
    assert (answer.status, answer.body["message"]) == (status, message)


def test_binding_of_a_missing_pod_is_not_found(api):
    answer = api.post(f"{PODS}/none/binding", binding(name="none"))
    assert (answer.status, answer.body["message"]) == (404, 'pods "none" not found')


@pytest.mark.parametrize("path", [f"{PODS}/p/binding", "/api/v1/namespaces/shop/bindings"])
def test_bindings_cannot_be_read(api, path):
    assert api.get(path).status == 405
