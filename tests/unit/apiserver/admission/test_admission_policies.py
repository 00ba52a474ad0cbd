# SPDX-License-Identifier: Apache-2.0
"""Policies at work: what they refuse and change, with which parameters, and what becomes of those that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.apiserver.conftest import Answer, Api, ManualClock

GROUP = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/shop/configmaps"
RULE = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
CREATING = {**RULE, "operations": ["CREATE", "UPDATE"]}


ASKING = "string(authorizer.path('/x').check('get').allowed())"


class PolicyApi(Api):
    """A server with policies that a test makes."""

    def __init__(self, runner: asyncio.Runner) -> None:
        super().__init__(runner, ManualClock())
        labels = {"tier": "front"}
        self.made("/api/v1/namespaces", {"metadata": {"name": "shop", "labels": labels}})

    def policy(
        self, *validations: dict[str, Any] | str, name: str = "p", actions: Any = ("Deny",), **spec: Any
    ) -> None:
        """A validating policy, and a binding of its name unless there are no actions."""
        spec = {"matchConstraints": {"resourceRules": [RULE]}, **spec}
        if validations:
            spec["validations"] = [{"expression": one} if isinstance(one, str) else one for one in validations]
        self.made(f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
        if actions:
            self.bind("validating", name, name, validationActions=list(actions))

    def mutation(self, *mutations: dict[str, Any], name: str = "p", **spec: Any) -> None:
        spec = {"matchConstraints": {"resourceRules": [CREATING]}, "reinvocationPolicy": "Never", **spec}
        body = {"metadata": {"name": name}, "spec": {**spec, "mutations": mutations}}
        self.made(f"{GROUP}/mutatingadmissionpolicies", body)
        self.bind("mutating", name, name)

    def bind(self, kind: str, name: str, policy: str, **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"policyName": policy, **spec}}
        self.made(f"{GROUP}/{kind}admissionpolicybindings", body)

    def make_map(self, name: str = "m", query: str = "", data: Any = None, **metadata: Any) -> Answer:
        return self.post(MAPS + query, {"metadata": {"name": name, **metadata}, "data": data or {"k": "v"}})


@pytest.fixture
def api() -> Iterator[PolicyApi]:
    with asyncio.Runner() as runner:
        yield PolicyApi(runner)


def denied(message: str, name: str = "m") -> str:
    return (
        f"configmaps \"{name}\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: {message}"
    )


# -- what they refuse -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ({"expression": "false"}, "failed expression: false"),
        ({"expression": "false", "message": " no "}, "no"),
        ({"expression": "false", "message": "no", "messageExpression": "'not ' + object.metadata.name"}, "not m"),
        ({"expression": "false", "message": "no", "messageExpression": "object.nosuch.x + ''"}, "no"),
        ({"expression": "false", "message": "no", "messageExpression": "'two\\nlines'"}, "no"),
        ({"expression": "false", "message": "no", "messageExpression": "' '"}, "no"),
        (
            {"expression": "object.nosuch == 1"},
            "expression 'object.nosuch == 1' resulted in error: no such key: nosuch",
        ),
    ],
)
def test_rejection_has_the_best_available_message(api, validation, message):
    api.policy(validation)
    answer = api.make_map()
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert answer.body["message"] == denied(message)
    assert answer.body["details"]["causes"][0]["message"] == denied(message).partition("forbidden: ")[2]


@pytest.mark.parametrize(("reason", "code"), [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413)])
def test_validation_chooses_its_reason(api, reason, code):
    api.policy({"expression": "false", "reason": reason})
    answer = api.make_map()
    assert (answer.status, answer.body["reason"]) == (code, reason)


def test_first_rejection_is_reported(api):
    api.policy("true", {"expression": "false", "message": "one"}, {"expression": "false", "message": "two"})
    assert api.make_map().body["message"] == denied("one")


def test_all_variables_of_a_request_are_available(api):
    api.policy(
        "object.data.k == 'v' || oldObject != null",
        "request.operation in ['CREATE', 'UPDATE']",
        "request.userInfo.username == 'admin' && 'system:masters' in request.userInfo.groups",
        "request.namespace == 'shop' && request.resource.resource == 'configmaps' && request.dryRun == false",
        "namespaceObject.metadata.labels['tier'] == 'front'",
        "namespaceObject.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')",
        "authorizer.group('').resource('secrets').namespace('shop').check('delete').allowed()",
        "!authorizer.serviceAccount('shop', 'x').group('').resource('secrets').check('delete').allowed()",
        "authorizer.requestResource.check('create').allowed() && authorizer.path('/healthz').check('get').allowed()",
        "oldObject == null || oldObject.data.k == 'v'",
        "!has(request.options.fieldManager) || request.options.fieldManager == 'me'",
    )
    assert api.make_map(query="?fieldManager=me").status == 201
    assert api.patch("merge", f"{MAPS}/m", {"data": {"k": "w"}}).status == 200


def test_variables_are_evaluated_lazily_and_may_use_earlier_ones(api):
    variables = [
        {"name": "size", "expression": "size(object.data)"},
        {"name": "twice", "expression": "variables.size * 2"},
        {"name": "broken", "expression": "object.nosuch.field"},
    ]
    api.policy("variables.twice == 2", "request.operation == 'CREATE' || variables.broken == 1", variables=variables)
    assert api.make_map().status == 201
    answer = api.patch("merge", f"{MAPS}/m", {"metadata": {"labels": {"a": "b"}}})
    assert 'composited variable "broken" fails to evaluate: no such key: nosuch' in answer.body["message"]


def test_deletion_is_validated_with_the_old_object(api):
    api.make_map()
    api.policy("request.operation != 'DELETE' || oldObject.data.k != 'v'")
    assert api.ask("DELETE", f"{MAPS}/m").status == 422
    api.patch("merge", f"{MAPS}/m", {"data": {"k": "w"}})
    assert api.ask("DELETE", f"{MAPS}/m").status == 200


def test_match_conditions_exclude_requests(api):
    conditions = [{"name": "x", "expression": "request.name != 'spared'"}]
    api.policy("false", matchConditions=conditions)
    assert api.make_map("spared").status == 201
    assert api.make_map("other").status == 422


@pytest.mark.parametrize(("failure", "status"), [("Fail", 422), ("Ignore", 201)])
def test_failures_follow_the_failure_policy(api, failure, status):
    api.policy("object.nosuch == 1", failurePolicy=failure)
    assert api.make_map().status == status


@pytest.mark.parametrize(("failure", "status"), [("Fail", 422), ("Ignore", 201)])
def test_failing_match_conditions_follow_the_failure_policy(api, failure, status):
    conditions = [{"name": "x", "expression": "object.nosuch == 1"}]
    api.policy("true", matchConditions=conditions, failurePolicy=failure)
    assert api.make_map().status == status


def test_expression_exceeding_its_cost_is_stopped(api):
    costly = "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, a + b + c + d != 'x'))))"
    api.policy(costly)
    answer = api.make_map(data={f"k{number}": "v" for number in range(60)})
    assert answer.status == 422
    assert answer.body["message"].endswith("operation cancelled: actual cost limit exceeded")


# -- bindings and parameters ----------------------------------------------------------------------------------------


def test_unbound_policy_has_no_effect(api):
    api.policy("false", actions=())
    assert api.make_map().status == 201


def test_binding_can_narrow_the_policy(api):
    api.policy("false", actions=())
    match = {"objectSelector": {"matchLabels": {"a": "b"}}}
    api.bind("validating", "p", "p", validationActions=["Deny"], matchResources=match)
    assert api.make_map("free").status == 201
    assert api.make_map("bound", labels={"a": "b"}).status == 422


def test_rules_can_name_and_exclude_resources(api):
    match = {"resourceRules": [{**RULE, "resourceNames": ["one", "two"]}],
             "excludeResourceRules": [{**RULE, "resourceNames": ["two"]}]}  # fmt: skip
    api.policy("false", matchConstraints=match)
    assert [api.make_map(name).status for name in ("one", "two", "three")] == [422, 201, 201]


def test_warn_action_does_not_reject(api):
    api.policy({"expression": "false", "message": "old ways"}, actions=("Warn", "Audit"))
    answer = api.make_map()
    assert answer.status == 201
    assert "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': old ways" in answer.headers["Warning"]


def _with_params(api: PolicyApi, **ref: Any) -> None:
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    rules = [{**RULE, "resources": ["secrets"]}]
    text = "object.metadata.name.startsWith(params.data.prefix)"
    api.policy(text, actions=(), paramKind=kind, matchConstraints={"resourceRules": rules})
    ref = {"parameterNotFoundAction": "Deny", **ref}
    api.bind("validating", "p", "p", validationActions=["Deny"], paramRef=ref)


def _make_secret(api: PolicyApi, name: str) -> Answer:
    return api.post("/api/v1/namespaces/shop/secrets", {"metadata": {"name": name}})


def test_parameters_are_read_by_name(api):
    _with_params(api, name="params")
    missing = _make_secret(api, "a-secret").body["message"]
    assert missing.endswith(
        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    )
    api.made(MAPS, {"metadata": {"name": "params"}, "data": {"prefix": "a-"}})
    assert _make_secret(api, "a-secret").status == 201
    assert _make_secret(api, "b-secret").status == 422


def test_parameters_selected_by_labels_must_all_pass(api):
    selector = {"matchLabels": {"params": "yes"}}
    _with_params(api, selector=selector, namespace="default", parameterNotFoundAction="Allow")
    assert _make_secret(api, "anything").status == 201
    for name, prefix in (("one", "a"), ("two", "ab")):
        body = {"metadata": {"name": name, "labels": {"params": "yes"}}, "data": {"prefix": prefix}}
        api.made("/api/v1/namespaces/default/configmaps", body)
    assert [_make_secret(api, name).status for name in ("abc", "axe", "x")] == [201, 422, 422]


def test_parameters_of_an_unknown_kind_are_reported(api):
    api.policy("params == null", paramKind={"apiVersion": "rules.example.com/v1", "kind": "Rule"})
    assert (
        api.make_map()
        .body["message"]
        .endswith(
            "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: "
            "failed to find resource referenced by paramKind: 'rules.example.com/v1, Kind=Rule'"
        )
    )


def test_policies_do_not_apply_to_policies(api):
    every = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    api.policy("false", matchConstraints={"resourceRules": [every]})
    path = f"{GROUP}/validatingadmissionpolicies/p"
    assert api.patch("merge", path, {"metadata": {"labels": {"a": "b"}}}).status == 200
    assert api.make_map().status == 422
    assert api.ask("DELETE", f"{GROUP}/validatingadmissionpolicybindings/p").status == 200
    assert api.make_map().status == 201


# -- what is wrong with them ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"validations": [{"expression": "1"}]}, "spec.validations[0].expression", "must evaluate to bool but got int"),
        (
            {"validations": [{"expression": "nosuch"}]},
            "spec.validations[0].expression",
            "undeclared reference to 'nosuch'",
        ),
        (
            {"validations": [{"expression": "params.x == 1"}]},
            "spec.validations[0].expression",
            "undeclared reference to 'params'",
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            "spec.validations[0].messageExpression",
            "must evaluate to string but got int",
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": ASKING}]},
            "spec.validations[0].messageExpression",
            "undeclared reference to 'authorizer'",
        ),
        (
            {"validations": [{"expression": "true"}], "variables": [{"name": "a", "expression": "nosuch"}]},
            "spec.variables[0].expression",
            "undeclared reference to 'nosuch'",
        ),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": "1"}]},
            "spec.auditAnnotations[0].valueExpression",
            "must evaluate to one of [string null_type] but got int",
        ),
        (
            {
                "validations": [{"expression": "true"}],
                "matchConditions": [{"name": "x", "expression": "variables.a == 1"}],
            },
            "spec.matchConditions[0].expression",
            "undeclared reference to 'variables'",
        ),
    ],
)  # fmt: skip
def test_invalid_expression_is_rejected_on_write(api, spec, field, message):
    body = {"metadata": {"name": "p"}, "spec": {"matchConstraints": {"resourceRules": [RULE]}, **spec}}
    answer = api.post(f"{GROUP}/validatingadmissionpolicies", body)
    assert answer.status == 422
    [cause] = answer.body["details"]["causes"]
    assert cause["field"] == field
    assert message in cause["message"]


# -- what they change -----------------------------------------------------------------------------------------------


def configure(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def test_apply_configuration_is_merged_into_the_object(api):
    api.mutation(
        configure("Object{metadata: Object.metadata{labels: {'by': variables.who}}}"),
        configure("Object{data: {'added': object.metadata.labels.by}}"),
        variables=[{"name": "who", "expression": "request.userInfo.username"}],
    )
    made = api.make_map(labels={"own": "1"}).body
    assert made["metadata"]["labels"] == {"own": "1", "by": "admin"}
    assert made["data"] == {"k": "v", "added": "admin"}


def test_list_items_are_merged_by_key(api):
    pods = {"resourceRules": [{**CREATING, "resources": ["pods"]}]}
    added = (
        "Object{spec: Object.spec{containers: object.spec.containers.map(c, "
        "Object.spec.containers{name: c.name, imagePullPolicy: 'Always'})}}"
    )
    api.mutation(configure(added), matchConstraints=pods)
    spec = {"containers": [{"name": name, "image": "i:1"} for name in ("a", "b")]}
    made = api.made("/api/v1/namespaces/shop/pods", {"metadata": {"name": "p"}, "spec": spec})
    assert [(one["image"], one["imagePullPolicy"]) for one in made["spec"]["containers"]] == [("i:1", "Always")] * 2


def test_json_patch_is_applied_unless_a_test_fails(api):
    escaped = "'/metadata/annotations/' + jsonpatch.escapeKey('a/b')"
    api.mutation(
        patch("[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'z': '1'}}]"),
        patch(f"[JSONPatch{{op: 'add', path: {escaped}, value: 'c'}}, JSONPatch{{op: 'remove', path: '/data/k'}}]"),
        patch("[JSONPatch{op: 'test', path: '/data', value: {'x': 'y'}}, JSONPatch{op: 'remove', path: '/metadata'}]"),
        patch("[JSONPatch{op: 'add', path: '/data', value: {'whole': string(object.metadata.annotations.size())}}]"),
    )
    made = api.make_map().body
    assert made["metadata"]["annotations"] == {"a/b": "c", "z": "1"}
    assert made["data"] == {"whole": "2"}


def test_policy_is_reinvoked_after_a_later_change(api):
    seen = "Object{data: {'seen': object.data.map(k, k).sort().join(' ')}}"
    api.mutation(configure(seen), name="a", reinvocationPolicy="IfNeeded")
    api.mutation(configure("Object{data: {'late': '1'}}"), name="b")
    assert api.make_map().body["data"] == {"k": "v", "late": "1", "seen": "k late seen"}


@pytest.mark.parametrize(
    ("mutation", "why"),
    [
        (configure("Object{nosuch: 1}"), "error applying patch: failed to convert patch object to typed object: "
         ".nosuch: field not declared in schema"),
        (configure("Object{data: {'x': object.data.nosuch}}"), "no such key: nosuch"),
        (configure("Object{metadata: Object.wrong{}}"), 'type mismatch: unexpected type name "Object.wrong", '
         'expected "Object.metadata", which matches field name path from root Object type'),
        (patch("[JSONPatch{op: 'remove', path: '/nosuch'}]"), "JSON Patch: "),
    ],
)  # fmt: skip
def test_failed_mutation_is_reported_unless_ignored(api, mutation, why):
    api.mutation(mutation)
    answer = api.make_map()
    assert (answer.status, answer.body["reason"]) == (403, "Invalid")
    assert answer.body["message"].startswith("policy 'p' with binding 'p' denied request: ")
    assert why in answer.body["message"]
    api.patch("merge", f"{GROUP}/mutatingadmissionpolicies/p", {"spec": {"failurePolicy": "Ignore"}})
    assert api.make_map().status == 201


def test_atomic_fields_are_not_applied(api):
    pods = {"resourceRules": [{**CREATING, "resources": ["pods"]}]}
    text = "Object{spec: Object.spec{containers: [Object.spec.containers{name: 'a', command: ['x']}]}}"
    api.mutation(configure(text), matchConstraints=pods)
    spec = {"containers": [{"name": "a", "image": "i:1"}]}
    answer = api.post("/api/v1/namespaces/shop/pods", {"metadata": {"name": "p"}, "spec": spec})
    assert "may not mutate atomic arrays, maps or structs: .spec.containers[0].command" in answer.body["message"]


def test_mutated_object_is_validated(api):
    api.mutation(configure("Object{metadata: Object.metadata{labels: {'not a label': 'x'}}}"))
    answer = api.make_map()
    assert (answer.status, answer.body["reason"]) == (422, "Invalid")
    assert "metadata.labels" in answer.body["message"]


# -- what is counted ------------------------------------------------------------------------------------------------


def counted(api: PolicyApi, name: str) -> list[str]:
    lines = api.get("/metrics").body.decode().splitlines()
    return [line.removeprefix(name) for line in lines if line.startswith(f"{name}{{")]


def test_checks_are_counted_by_result(api):
    api.policy("object.data.k == 'v'", name="kept", actions=("Deny",))
    api.policy("false", name="audited", actions=("Audit", "Warn"))
    api.policy("object.nosuch == 1", name="forgiven", failurePolicy="Ignore")
    api.policy("object.nosuch == 1", name="p")
    assert api.make_map().status == 422
    found = counted(api, "apiserver_validating_admission_policy_check_total")
    assert sorted(found) == [
        '{enforcement_action="allow",error_type="invalid_error",policy="forgiven",policy_binding="forgiven"} 1',
        '{enforcement_action="audit",error_type="no_error",policy="audited",policy_binding="audited"} 1',
        '{enforcement_action="deny",error_type="invalid_error",policy="p",policy_binding="p"} 1',
        '{enforcement_action="warn",error_type="no_error",policy="audited",policy_binding="audited"} 1',
    ]
    assert len(counted(api, "apiserver_validating_admission_policy_check_duration_seconds_count")) == 4


def test_mutations_are_counted(api):
    change = {"expression": "Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}
    api.mutation({"patchType": "ApplyConfiguration", "applyConfiguration": change})
    assert api.make_map().status == 201
    found = counted(api, "apiserver_mutating_admission_policy_check_total")
    assert found == ['{error_type="no_error",policy="p",policy_binding="p"} 1']


def test_failing_match_conditions_are_counted(api):
    conditions = [{"name": "odd", "expression": "object.nosuch == 1"}, {"name": "no", "expression": "false"}]
    api.policy("false", matchConditions=conditions)
    assert api.make_map().status == 201
    about = '{kind="policy",name="p",operation="CREATE",type="validate"}'
    assert counted(api, "apiserver_admission_match_condition_evaluation_errors_total") == [f"{about} 1"]
    assert counted(api, "apiserver_admission_match_condition_evaluation_seconds_count") == [f"{about} 1"]
    assert counted(api, "apiserver_admission_match_condition_exclusions_total") == []


def test_expensive_policy_does_not_block_other_requests(api):
    numbers = "[" + ", ".join(map(str, range(80))) + "]"
    api.policy(f"{numbers}.all(x, {numbers}.all(y, x + y >= 0 && authorizer.path('/x').check('get').allowed()))")
    api.server.worker_thread.start()

    async def both() -> tuple[Answer, Answer, bool]:
        body = {"metadata": {"name": "m"}, "data": {"k": "v"}}
        dear = asyncio.ensure_future(api._answer("POST", MAPS, body, {}))
        await asyncio.sleep(0)
        read = await api._answer("GET", MAPS, None, {})
        came_first = not dear.done()
        return read, await dear, came_first

    read, refused, came_first = api._runner.run(both())
    api.server.worker_thread.close()
    assert (read.status, refused.status, came_first) == (200, 422, True)
    assert "cost limit exceeded" in refused.body["message"]


def test_mutating_policies_do_not_match_deletions(api):
    """As in kube-apiserver: the operation DELETE is not supported, and `*` does not include it."""
    api.make_map("m")
    patch = {"expression": "[JSONPatch{op: 'test', path: '/data/k', value: object.data.none}]"}
    everything = {"resourceRules": [{**RULE, "operations": ["*"]}]}
    api.mutation({"patchType": "JSONPatch", "jsonPatch": patch}, matchConstraints=everything, failurePolicy="Fail")
    assert api.make_map("n").status >= 400
    assert api.ask("DELETE", f"{MAPS}/m").status == 200


@pytest.mark.parametrize(("reinvocation", "size"), [("Never", "1"), ("IfNeeded", "2")])
def test_a_policy_is_invoked_again_for_its_own_change(api, reinvocation, size):
    """As in kube-apiserver, unlike a webhook."""
    apply = {"expression": "Object{data: {'size': string(size(object.data))}}"}
    api.mutation({"patchType": "ApplyConfiguration", "applyConfiguration": apply}, reinvocationPolicy=reinvocation)
    assert api.make_map("m").body["data"] == {"k": "v", "size": size}
