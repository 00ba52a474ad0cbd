# SPDX-License-Identifier: Apache-2.0
"""Tests of the differential tests: generation, folding, comparison, shrinking, and a run against two servers."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from tools.differential.case import Answer, Case, Step, fill, run_case
from tools.differential.compare import Level, difference
from tools.differential.fold import fold, fold_answer
from tools.differential.generator import CaseGenerator, canonical
from tools.differential.grammars import WEIGHTS, Grammar
from tools.differential.grammars.objects import objects
from tools.differential.mutate import mutated
from tools.differential.openapi import ServedResource, read_resources
from tools.differential.run import DifferentialRun
from tools.differential.seeds import Seed, read_seeds
from tools.differential.shrink import shrink, smaller_values

_OBJECTS = {objects: 1}
_GVK = {"group": "", "version": "v1", "kind": "ConfigMap"}
_CREATE = {
    "x-kubernetes-group-version-kind": _GVK,
    "requestBody": {"content": {"*/*": {"schema": {"$ref": "#/components/schemas/ConfigMap"}}}},
}
_DOCUMENTS: dict[str, Any] = {
    "/openapi/v3": {"paths": {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1"}}},
    "/openapi/v3/api/v1": {
        "paths": {
            "/api/v1/namespaces/{namespace}/configmaps": {"get": {}, "post": _CREATE, "parameters": []},
            "/api/v1/namespaces/{namespace}/configmaps/{name}": {"get": {}, "put": {}, "delete": {}},
            "/api/v1/namespaces/{namespace}/configmaps/{name}/status": {"get": {}},
            "/api/v1/componentstatuses": {"get": {}},
        },
        "components": {
            "schemas": {
                "ConfigMap": {
                    "type": "object",
                    "properties": {"data": {"type": "object", "additionalProperties": {"type": "string"}}},
                }
            }
        },
    },
}


class MapServer:
    """Stores ConfigMaps in a dictionary; `change` alters answers, as a server with a defect would."""

    def __init__(self, change: Callable[[Step, Answer], Answer] = lambda step, answer: answer) -> None:
        self._objects: dict[str, Any] = {}
        self._change = change

    def send(self, step: Step) -> Answer:
        return self._change(step, self._answer(step))

    def _answer(self, step: Step) -> Answer:
        path = step.path.partition("?")[0]
        if step.method == "POST":
            name = step.body.get("metadata", {}).get("name") if isinstance(step.body, dict) else None
            self._objects[f"{path}/{name}"] = step.body
            return Answer(201, step.body)
        if path not in self._objects:
            return Answer(404, {"kind": "Status", "reason": "NotFound"})
        if step.method in ("PUT", "PATCH"):
            self._objects[path] = step.body
        return Answer(200, self._objects[path])


def test_resources_are_read_from_openapi() -> None:
    (resource,) = read_resources(_DOCUMENTS.__getitem__)
    assert (resource.api_version, resource.kind, resource.is_namespaced) == ("v1", "ConfigMap", True)
    assert resource.methods == {"GET", "POST", "PUT", "DELETE"}
    assert resource.subresources == ("status",)
    assert "data" in resource.schema["properties"]


def test_cases_repeat_by_seed_and_number() -> None:
    seeds = read_seeds(read_resources(_DOCUMENTS.__getitem__))
    first, second = CaseGenerator(seeds, 7, _OBJECTS), CaseGenerator(seeds, 7, _OBJECTS)
    assert [canonical(first.case(n)) for n in range(50)] == [canonical(second.case(n)) for n in reversed(range(50))][
        ::-1
    ]
    assert len({canonical(first.case(n)) for n in range(50)}) > 40
    assert canonical(CaseGenerator(seeds, 8, _OBJECTS).case(0)) != canonical(first.case(0))


def test_mutation_changes_a_copy() -> None:
    document = {"metadata": {"name": "a"}, "data": {"a": "1"}}
    before = json.dumps(document)
    schema = read_resources(_DOCUMENTS.__getitem__)[0].schema
    results = [mutated(random.Random(n), document, schema, {}) for n in range(100)]
    assert json.dumps(document) == before
    assert sum(one != document for one in results) > 90


def test_references_to_earlier_answers_are_filled() -> None:
    answers = [Answer(201, {"metadata": {"resourceVersion": "7", "uid": "u"}}), Answer(404, "text")]
    assert fill({"a": ["{ns}", "{rv:0}", "{uid:0}", "{rv:1}", "{name:9}"]}, "n", answers) == {
        "a": ["n", "7", "u", "", ""]
    }


@pytest.mark.parametrize(
    ("value", "folded"),
    [
        (
            {"metadata": {"uid": "x", "resourceVersion": "5"}},
            {"metadata": {"uid": "UID", "resourceVersion": "REVISION"}},
        ),
        ({"resourceVersion": "0"}, {"resourceVersion": "0"}),
        ({"generateName": "g-", "name": "g-abcde"}, {"generateName": "g-", "name": "g-SUFFIX"}),
        ({"message": "n-1 at 2026-01-01T00:00:00Z\ndump"}, {"message": "NAMESPACE at TIME"}),
        ({"clusterIP": "None"}, {"clusterIP": "None"}),
        ({"cells": ["a", "5m3s"]}, {"cells": ["a", "AGE"]}),
        ({"causes": [{"field": "b"}, {"field": "a"}]}, {"causes": [{"field": "a"}, {"field": "b"}]}),
    ],
)
def test_values_that_differ_between_equal_servers_are_folded(value: Any, folded: Any) -> None:
    assert fold(value, "n-1") == folded


def _status(reason: str, *fields: str) -> dict[str, Any]:
    return {
        "kind": "Status",
        "reason": reason,
        "details": {"causes": [{"reason": "R", "field": one} for one in fields]},
    }


@pytest.mark.parametrize(
    ("ours", "theirs", "level"),
    [
        (Answer(200, {}), Answer(404, {}), Level.STATUS),
        (Answer(422, _status("Invalid", "a")), Answer(422, _status("Invalid", "b")), Level.REASON),
        (Answer(409, _status("Conflict")), Answer(409, _status("AlreadyExists")), Level.REASON),
        (Answer(200, {"a": [1, {"b": 2}]}), Answer(200, {"a": [1, {"b": 3}]}), Level.BODY),
        (Answer(200, {"a": 1}), Answer(200, {"a": True}), Level.BODY),
        (Answer(200, {}, ("w",)), Answer(200, {}), Level.BODY),
        (Answer(200, {}, content_type="a/b"), Answer(200, {}), Level.BODY),
    ],
)
def test_differences_have_a_level(ours: Answer, theirs: Answer, level: Level) -> None:
    found = difference(0, ours, theirs)
    assert found is not None
    assert found.level is level
    assert difference(0, theirs, theirs) is None


def test_differences_of_one_cause_have_one_signature() -> None:
    found = [difference(0, Answer(200, {"a": [{"b": n}]}), Answer(200, {"a": [{"b": 0}]})) for n in (1, 2)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].signature() == found[1].signature()


def test_shrinking_keeps_only_what_is_needed() -> None:
    steps = (
        Step("POST", "/a?x=1&y=2", {"metadata": {"name": "a"}, "data": {"k": "bad", "l": "good"}}, {"Accept": "*/*"}),
        Step("GET", "/a"),
    )

    def differs(case: Case) -> bool:
        return any("bad" in json.dumps(step.body) for step in case.steps)

    assert shrink(Case("c", steps), differs).steps == (Step("POST", "/a", {"data": {"k": "bad"}}),)


def test_shrinking_keeps_the_dry_run() -> None:
    steps = (Step("POST", "/a?x=1&dryRun=All", {}),)
    assert shrink(Case("c", steps), lambda case: True).steps == (Step("POST", "/a?dryRun=All", {}),)


def test_dumps_of_objects_are_folded_to_sorted_keys() -> None:
    one, other = json.dumps(json.dumps({"b": 1, "a": {"d": "x", "c": 2}})), json.dumps('{"a":{"c":2,"d":"x"},"b":1}')
    assert fold(f"Invalid value: {one}: bad", "ns") == fold(f"Invalid value: {other}: bad", "ns")
    assert fold('in scheme "k8s.io/x/pkg/a.go:1"', "ns") == 'in scheme "pkg/a.go:1"'


def test_objects_created_under_other_names_are_cleaned_up() -> None:
    resource = ServedResource("", "v1", "Node", "/api/v1/nodes", frozenset(), (), {}, {})
    seed = Seed(resource, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}, is_dry_run=False)
    cases = [CaseGenerator([seed], 1, _OBJECTS).case(number) for number in range(300)]
    bodies = [case.steps[0].body for case in cases if isinstance(case.steps[0].body, dict)]
    names = [meta.get("name") for body in bodies if isinstance(meta := body.get("metadata"), dict)]
    found = {path.rpartition("/")[2] for case in cases for path in case.cleanup}
    plain = {name for name in names if isinstance(name, str) and name.isalnum()}
    assert len(plain) > 1
    assert plain <= found


def test_shrinking_keeps_the_time_limit_of_a_watch() -> None:
    steps = (Step("GET", "/a?watch=1&limit=1&timeoutSeconds=1"),)
    assert shrink(Case("c", steps), lambda case: True).steps == (Step("GET", "/a?timeoutSeconds=1"),)


def test_smaller_values_remove_one_part_each() -> None:
    assert list(smaller_values({"kind": "K", "a": {"b": 1}})) == [{"kind": "K"}, {"kind": "K", "a": {}}]


def test_equal_servers_do_not_differ() -> None:
    seeds = read_seeds(read_resources(_DOCUMENTS.__getitem__))
    run = DifferentialRun(MapServer().send, MapServer().send, "t")
    run.run(CaseGenerator(seeds, 1, _OBJECTS).case, 200, 2)
    assert run.report.requests >= 200
    assert run.report.findings == {}


def test_a_defect_is_found_shrunk_and_counted() -> None:
    def refuse_labels(step: Step, answer: Answer) -> Answer:
        metadata = step.body.get("metadata") if step.method == "POST" and isinstance(step.body, dict) else None
        if isinstance(metadata, dict) and "labels" in metadata:
            return Answer(400, {"kind": "Status", "reason": "BadRequest"})
        return answer

    seeds = read_seeds(read_resources(_DOCUMENTS.__getitem__))
    run = DifferentialRun(MapServer(refuse_labels).send, MapServer().send, "t")
    run.run(CaseGenerator(seeds, 1, _OBJECTS).case, 100, 1)
    finding = next(one for one in run.report.findings.values() if one.difference.level is Level.STATUS)
    assert finding.count > 5
    assert [step.body for step in finding.case.steps] == [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {}}}
    ]
    assert json.loads(run.report.to_json())["findings"][0]["theirs"]["status"] == 201


def test_cleanup_deletes_objects_outside_of_the_namespace() -> None:
    sent: list[Step] = []

    def send(step: Step) -> Answer:
        sent.append(step)
        return Answer(200, {})

    run_case(send, Case("c", (Step("POST", "/api/v1/nodes", {}),), ("/api/v1/nodes/{ns}-n",)), "n")
    assert sent[-1] == Step("DELETE", "/api/v1/nodes/n-n")


def test_folding_an_answer_keeps_its_status() -> None:
    folded = fold_answer(Answer(201, {"uid": "x"}, ("w in t-1",)), "t-1")
    assert folded == Answer(201, {"uid": "UID"}, ("w in NAMESPACE",))


@pytest.mark.parametrize("grammar", WEIGHTS, ids=lambda grammar: grammar.__name__)
def test_each_grammar_writes_different_cases_that_repeat(grammar: Grammar) -> None:
    seeds = read_seeds(read_resources(_DOCUMENTS.__getitem__))
    first, second = CaseGenerator(seeds, 3, {grammar: 1}), CaseGenerator(seeds, 3, {grammar: 1})
    written = [canonical(first.case(number)) for number in range(60)]
    assert written == [canonical(second.case(number)) for number in range(60)]
    assert len(set(written)) > 40


def _server_that_needs(requests: int) -> Callable[[Step], Answer]:
    sent: list[Step] = []

    def send(step: Step) -> Answer:
        sent.append(step)
        return Answer(200 if len(sent) >= requests else 404, {})

    return send


def test_awaited_requests_are_repeated() -> None:
    case = Case("c", (Step("GET", "/a", awaited=200),))
    assert [one.status for one in run_case(_server_that_needs(3), case, "n")] == [200]


def test_awaited_requests_are_sent_once_after_a_rejected_one() -> None:
    case = Case("c", (Step("POST", "/a"), Step("GET", "/a", awaited=200)))
    assert [one.status for one in run_case(_server_that_needs(5), case, "n")] == [404, 404]


def test_periodic_bookmarks_are_folded_away() -> None:
    end = {"metadata": {"annotations": {"k8s.io/initial-events-end": "true"}}}
    events = [{"type": "BOOKMARK", "object": {"metadata": {}}}, {"type": "BOOKMARK", "object": end}]
    assert fold_answer(Answer(200, events), "n").body == events[1:]


def test_protobuf_bodies_are_encoded() -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    step = Step("POST", "/a", body, {"Content-Type": "application/vnd.kubernetes.protobuf"})
    assert (step.encoded_body() or b"").startswith(b"k8s\0")


def test_a_difference_that_does_not_repeat_is_not_counted() -> None:
    answers = iter([404])

    def send(step: Step) -> Answer:
        return Answer(next(answers, 200) if step.path == "/a" else 200, {})

    run = DifferentialRun(send, lambda step: Answer(200, {}), "t")
    assert run.compare(Case("c", (Step("GET", "/a"),))) is None
    assert run.report.findings == {}


def test_shrinking_keeps_the_namespace_selector_of_a_policy() -> None:
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "n"}}}
    body = {"spec": {"matchConstraints": {**selector, "resourceRules": []}, "variables": []}}
    case = shrink(Case("c", (Step("POST", "/a", body),)), lambda case: True)
    assert case.steps[0].body == {"spec": {"matchConstraints": selector}}


def test_values_in_messages_are_folded_to_sorted_keys() -> None:
    assert fold('a: Invalid value: {"b":1,"a":2}: wrong', "t-1") == 'a: Invalid value: {"a": 2, "b": 1}: wrong'
    assert fold("a: Invalid value: {b: wrong", "t-1") == "a: Invalid value: {b: wrong"
