# SPDX-License-Identifier: Apache-2.0
"""An eviction deletes a pod as far as its disruption budget allows."""

from __future__ import annotations

import pytest

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
BUDGETS = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets"
WEB = {"app": "web"}


def eviction(name="p", **options):
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return {**body, "deleteOptions": options} if options else body


@pytest.fixture
def budget(api):
    """Makes a budget for the web pods with a status as its controller would write it."""

    def make(name="b", allowed=0, healthy=2, desired=1, observed=1, policy=None, **status):
        spec = {"minAvailable": 1, "selector": {"matchLabels": WEB}}
        if policy:
            spec["unhealthyPodEvictionPolicy"] = policy
        api.made(BUDGETS, {"metadata": {"name": name}, "spec": spec})
        counts = {
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": 2,
            "observedGeneration": observed,
        }
        assert api.patch("merge", f"{BUDGETS}/{name}/status", {"status": counts | status}).status == 200

    return make


@pytest.fixture
def running(pods):
    def make(name="p", status=READY, **spec):
        return pods(name, WEB, status, nodeName="n1", **spec)

    return make


def refusal(answer):
    assert (answer.status, answer.body["reason"]) == (429, "TooManyRequests")
    assert answer.body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = answer.body["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    return cause["message"]


def test_pod_without_a_budget_is_evicted(api, running):
    path = running()
    answer = api.post(f"{path}/eviction", eviction(gracePeriodSeconds=0))
    assert (answer.status, answer.body["status"]) == (201, "Success")
    assert api.get(path).status == 404


def test_v1beta1_evictions_are_accepted(api, running):
    path = running()
    assert api.post(f"{path}/eviction", {**eviction(), "apiVersion": "policy/v1beta1"}).status == 201
    assert api.get(path).body["metadata"]["deletionTimestamp"]


def test_evicted_pod_has_the_disruption_condition(api, running):
    path = running()
    api.post(f"{path}/eviction", eviction(gracePeriodSeconds=5))
    pod = api.get(path).body
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 5
    target = pod["status"]["conditions"][-1]
    assert (target["type"], target["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")


def test_eviction_is_charged_to_the_budget(api, running, budget):
    budget(allowed=2)
    assert api.post(f"{running()}/eviction", eviction()).status == 201
    status = api.get(f"{BUDGETS}/b").body["status"]
    assert status["disruptionsAllowed"] == 1
    assert status["disruptedPods"] == {"p": "2026-05-10T12:00:00Z"}
    assert "conditions" not in status


def test_last_allowed_disruption_exhausts_the_budget(api, running, budget):
    budget(allowed=1)
    api.post(f"{running()}/eviction", eviction())
    (condition,) = api.get(f"{BUDGETS}/b").body["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionAllowed",
        "False",
        "InsufficientPods",
    )


def test_concurrent_evictions_never_exceed_the_budget(api, running, budget):
    budget(allowed=3)
    evictions = [(f"{running(name)}/eviction", eviction(name)) for name in "abcde"]
    codes = sorted(answer.status for answer in api.post_at_once(evictions))
    assert codes == [201, 201, 201, 429, 429]
    status = api.get(f"{BUDGETS}/b").body["status"]
    assert (status["disruptionsAllowed"], len(status["disruptedPods"])) == (0, 3)


def test_budget_status_change_is_owned_by_the_server(api, running, budget):
    budget(allowed=1)
    api.post(f"{running()}/eviction", eviction())
    entries = api.get(f"{BUDGETS}/b").body["metadata"]["managedFields"]
    (own,) = [entry for entry in entries if entry["manager"] == "kube-apiserver"]
    assert own["subresource"] == "status"
    assert "f:disruptionsAllowed" in own["fieldsV1"]["f:status"]


def test_dry_run_keeps_budget_and_pod(api, running, budget):
    budget(allowed=1)
    path = running()
    before = api.get(path).body
    assert api.post(f"{path}/eviction?dryRun=All", eviction()).status == 201
    assert api.post(f"{path}/eviction", eviction(dryRun=["All"])).status == 201
    assert api.get(path).body == before
    assert api.get(f"{BUDGETS}/b").body["status"]["disruptionsAllowed"] == 1


def test_contradictory_dry_runs_are_rejected(api, running):
    answer = api.post(f"{running()}/eviction?dryRun=All", eviction(dryRun=["Some"]))
    assert answer.body["message"] == "Non-matching dry-run options in request and content: [All] and [Some]"


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"healthy": 1}, "The disruption budget b needs 1 healthy pods and has 1 currently"),
        ({}, "The disruption budget b does not allow evicting pods currently"),
    ],
)
def test_exhausted_budget_rejects(api, running, budget, status, told):
    budget(**status)
    answer = api.post(f"{running()}/eviction", eviction())
    assert refusal(answer) == told
    assert "Retry-After" not in answer.headers


@pytest.mark.parametrize(
    ("reason", "healthy", "told"),
    [
        ("SyncFailed", 0, "b does not allow evicting pods currently because it failed sync: no scale"),
        ("InsufficientPods", 2, "b does not allow evicting pods currently (InsufficientPods): no scale"),
        ("InsufficientPods", 1, "b needs 1 healthy pods and has 1 currently"),
    ],
)
def test_budget_condition_message_is_returned(api, running, budget, reason, healthy, told):
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": reason,
        "message": "no scale",
        "lastTransitionTime": "2026-05-10T11:00:00Z",
    }
    budget(healthy=healthy, conditions=[condition])
    assert refusal(api.post(f"{running()}/eviction", eviction())) == f"The disruption budget {told}"


def test_unobserved_budget_rejects_with_ten_seconds_retry(api, running, budget):
    budget(allowed=1, observed=0)
    answer = api.post(f"{running()}/eviction", eviction())
    assert refusal(answer) == "The disruption budget b is still being processed by the server."
    assert answer.headers["Retry-After"] == "10"


def test_too_many_unobserved_evictions_are_rejected(api, running, budget):
    noticed = {f"pod-{number}": "2026-05-10T11:00:00Z" for number in range(2001)}
    budget(allowed=1, disruptedPods=noticed)
    answer = api.post(f"{running()}/eviction", eviction())
    assert (answer.status, answer.body["reason"]) == (403, "Forbidden")
    assert "DisruptedPods map too big" in answer.body["message"]


def test_a_pod_with_two_budgets_is_not_evicted(api, running, budget):
    budget("a", allowed=1)
    budget("b", allowed=1)
    path = running()
    answer = api.post(f"{path}/eviction", eviction())
    assert answer.status == answer.body["code"] == 500
    assert answer.body["message"] == (
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    )
    assert api.get(path).status == 200


def test_budget_for_other_pods_is_ignored(api, pods, budget):
    budget()
    path = pods("p", {"app": "other"}, READY, nodeName="n1")
    assert api.post(f"{path}/eviction", eviction()).status == 201


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_terminated_pod_needs_no_budget(api, running, budget, phase):
    budget()
    path = running(status={"phase": phase})
    assert api.post(f"{path}/eviction", eviction(gracePeriodSeconds=0)).status == 201
    assert api.get(path).status == 404


def test_terminating_pod_needs_no_budget(api, running, budget):
    budget()
    path = running()
    api.ask("DELETE", path)
    assert api.post(f"{path}/eviction", eviction(gracePeriodSeconds=5)).status == 201
    assert api.get(path).body["metadata"]["deletionGracePeriodSeconds"] == 5


@pytest.mark.parametrize(
    ("healthy", "policy", "status"),
    [(0, None, 429), (1, None, 201), (1, "IfHealthyBudget", 201), (0, "IfHealthyBudget", 429), (0, "AlwaysAllow", 201)],
)
def test_unhealthy_pod_is_evicted_if_the_policy_allows(api, running, budget, healthy, policy, status):
    budget(healthy=healthy, policy=policy)
    path = running(status={"phase": "Running"})
    assert api.post(f"{path}/eviction", eviction()).status == status
    assert "disruptedPods" not in api.get(f"{BUDGETS}/b").body["status"]


@pytest.mark.parametrize(
    "demand", [{"uid": "other"}, {"resourceVersion": "1"}], ids=["another uid", "an old resource version"]
)
def test_eviction_preconditions_are_checked(api, running, demand):
    path = running()
    answer = api.post(f"{path}/eviction", eviction(preconditions=demand))
    assert (answer.status, answer.body["details"]["kind"]) == (409, "Pod")
    assert "DisruptionTarget" not in str(api.get(path).body)


def test_current_resource_version_may_be_required(api, running):
    path = running()
    version = api.get(path).body["metadata"]["resourceVersion"]
    assert api.post(f"{path}/eviction", eviction(preconditions={"resourceVersion": version})).status == 201
    assert api.get(path).body["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (eviction("other"), 400, "name in URL does not match name in Eviction object"),
        (
            eviction(ignoreStoreReadErrorWithClusterBreakingPotential=True),
            422,
            'Eviction.policy "p" is invalid: deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential: '
            "Invalid value: true: can not be set for pod eviction, try after removing the option",
        ),
    ],
)
def test_invalid_eviction_is_rejected(api, running, body, status, message):
    answer = api.post(f"{running()}/eviction", body)
    assert (answer.status, answer.body["message"]) == (status, message)


def test_eviction_of_a_missing_pod_is_not_found(api):
    answer = api.post("/api/v1/namespaces/shop/pods/none/eviction", eviction("none"))
    assert (answer.status, answer.body["message"]) == (404, 'pods "none" not found')
