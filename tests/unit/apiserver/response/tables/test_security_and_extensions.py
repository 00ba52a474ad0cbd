# SPDX-License-Identifier: Apache-2.0
"""Rows of bindings, certificates, admission, custom resources, API services and flow control."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.apiserver.response.tables import table_rows

ADMISSION = "admissionregistration.k8s.io/v1"


def with_conditions(*types: str) -> dict[str, Any]:
    return {"conditions": [{"type": type, "status": "True"} for type in types]}


@pytest.mark.parametrize("kind", ["rolebindings", "clusterrolebindings"])
def test_a_binding_sorts_its_subjects_by_kind(show: Any, kind: str) -> None:
    subjects = [
        {"kind": "User", "name": "ann"},
        {"kind": "ServiceAccount", "name": "sa", "namespace": "ns"},
        {"kind": "User", "name": "bob"},
        {"kind": "Group", "name": "ops"},
    ]
    row = show(f"{kind}.rbac.authorization.k8s.io/v1", roleRef={"kind": "Role", "name": "r"}, subjects=subjects)
    assert list(row.values()) == ["x", "Role/r", "5m", "ann, bob", "ops", "ns/sa"]


@pytest.mark.parametrize("kind", ["roles", "clusterroles"])
def test_roles_show_when_they_were_created(show: Any, kind: str) -> None:
    row = show(f"{kind}.rbac.authorization.k8s.io/v1")
    assert row == {"Name": "x", "Created At": "2026-05-10T11:55:00Z"}


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({}, "Pending"),
        (with_conditions("Approved"), "Approved"),
        (with_conditions("Approved", "Denied"), "Denied"),
        ({**with_conditions("Approved", "Failed"), "certificate": "AA=="}, "Approved,Failed,Issued"),
    ],
)
def test_certificate_signing_request_shows_its_state(show: Any, status: Any, shown: str) -> None:
    kind = "certificatesigningrequests.certificates.k8s.io/v1"
    spec = {"signerName": "s.org/y", "username": "ann", "expirationSeconds": 3600}
    assert list(show(kind, spec=spec, status=status).values()) == ["x", "5m", "s.org/y", "ann", "60m", shown]


def test_certificate_signing_request_may_lack_signer_and_duration(show: Any) -> None:
    row = show("certificatesigningrequests.certificates.k8s.io/v1")
    assert (row["SignerName"], row["RequestedDuration"]) == ("<none>", "<none>")


def test_trust_bundles_and_pod_requests_name_their_signer(show: Any) -> None:
    bundle = "clustertrustbundles.certificates.k8s.io/v1"
    assert list(show(bundle).values()) == ["x", "<none>"]
    assert list(show(bundle, spec={"signerName": "s"}).values()) == ["x", "s"]
    spec = {"podName": "p", "serviceAccountName": "sa", "nodeName": "n", "signerName": "s"}
    request = "podcertificaterequests.certificates.k8s.io/v1"
    assert list(show(request, spec=spec).values()) == ["x", "p", "sa", "n", "s", "Pending", "<none>"]
    issued = show(request, spec={"unverifiedUserAnnotations": {"a": "b"}}, status=with_conditions("Issued"))
    assert (issued["State"], issued["UnverifiedUserAnnotations"]) == ("Issued", "a=b")


@pytest.mark.parametrize("kind", ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"])
def test_webhooks_are_counted(show: Any, kind: str) -> None:
    assert list(show(f"{kind}.{ADMISSION}", webhooks=[{"name": "a"}, {"name": "b"}]).values()) == ["x", 2, "5m"]


@pytest.mark.parametrize(
    ("kind", "rules"), [("validatingadmissionpolicies", "validations"), ("mutatingadmissionpolicies", "mutations")]
)
def test_a_policy_shows_its_rules_and_parameter_kind(show: Any, kind: str, rules: str) -> None:
    param_kind = {"apiVersion": "g.org/v1", "kind": "Limit"}
    row = show(f"{kind}.{ADMISSION}", spec={rules: [{}], "paramKind": param_kind})
    assert list(row.values()) == ["x", 1, "g.org/v1/Limit", "5m"]
    assert show(f"{kind}.{ADMISSION}")["ParamKind"] == "<unset>"


@pytest.mark.parametrize("kind", ["validatingadmissionpolicybindings", "mutatingadmissionpolicybindings"])
@pytest.mark.parametrize(
    ("ref", "shown"),
    [
        (None, "<unset>"),
        ({"name": "p"}, "*/p"),
        ({"name": "p", "namespace": "ns"}, "ns/p"),
        (
            {
                "selector": {
                    "matchLabels": {"b": "2", "a": "1"},
                    "matchExpressions": [{"key": "k", "operator": "In", "values": ["v", "w"]}],
                }
            },
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement"
            "{LabelSelectorRequirement{Key:k,Operator:In,Values:[v w],},},}",
        ),
    ],
)
def test_a_policy_binding_names_its_parameters(show: Any, kind: str, ref: Any, shown: str) -> None:
    row = show(f"{kind}.{ADMISSION}", spec={"policyName": "pol", "paramRef": ref})
    assert list(row.values()) == ["x", "pol", shown, "5m"]


def test_a_definition_lists_served_versions(show: Any) -> None:
    versions = [
        {"name": "v2", "served": True, "storage": True},
        {"name": "v1", "served": True},
        {"name": "v0", "served": False},
    ]
    names = {"kind": "Thing", "plural": "things", "shortNames": ["t", "th"]}
    spec = {"group": "g.org", "scope": "Namespaced", "names": names, "versions": versions}
    row = show("customresourcedefinitions.apiextensions.k8s.io/v1", spec=spec, status=with_conditions("Established"))
    assert list(row.values()) == [
        "x",
        "Namespaced",
        "v1,v2(storage)",
        "2026-05-10T11:55:00Z",
        "g.org",
        "Thing",
        "t,th",
        True,
    ]


@pytest.mark.parametrize(
    ("service", "condition", "shown"),
    [
        (None, None, ["Local", "Unknown"]),
        ({"namespace": "ns", "name": "s"}, {"status": "True", "reason": "Passed"}, ["ns/s", "True"]),
        (None, {"status": "False", "reason": "MissingEndpoints"}, ["Local", "False (MissingEndpoints)"]),
        (None, {"status": "False"}, ["Local", "False"]),
    ],
)
def test_api_service_shows_its_backend(show: Any, service: Any, condition: Any, shown: list[str]) -> None:
    conditions = [{"type": "Available", **condition}] if condition else []
    row = show("apiservices.apiregistration.k8s.io/v1", spec={"service": service}, status={"conditions": conditions})
    assert list(row.values()) == ["x", *shown, "5m"]


def test_flow_schemas_are_listed_in_matching_order(resource: Any, build: Any, now: Any) -> None:
    kind = "flowschemas.flowcontrol.apiserver.k8s.io/v1"
    schemas = [("late", 9), ("b", 5), ("a", 5)]
    built = [build(kind, {"name": name}, spec={"matchingPrecedence": number}) for name, number in schemas]
    assert [cells[0] for _, cells in table_rows(resource(kind), built, now)] == ["a", "b", "late"]


def test_flow_schema_shows_a_missing_level(show: Any) -> None:
    kind = "flowschemas.flowcontrol.apiserver.k8s.io/v1"
    spec = {
        "priorityLevelConfiguration": {"name": "pl"},
        "matchingPrecedence": 7,
        "distinguisherMethod": {"type": "ByUser"},
    }
    status = {"conditions": [{"type": "Dangling", "status": "False"}]}
    assert list(show(kind, spec=spec, status=status).values()) == ["x", "pl", 7, "ByUser", "5m", "False"]
    assert list(show(kind).values())[3:] == ["<none>", "5m", "?"]


@pytest.mark.parametrize(
    ("spec", "shown"),
    [
        ({"type": "Exempt"}, ["Exempt", "<none>", "<none>", "<none>", "<none>"]),
        ({"type": "Limited", "limited": {"nominalConcurrencyShares": 5}}, ["Limited", 5, "<none>", "<none>", "<none>"]),
        (
            {
                "type": "Limited",
                "limited": {
                    "nominalConcurrencyShares": 5,
                    "limitResponse": {"queuing": {"queues": 8, "handSize": 2, "queueLengthLimit": 50}},
                },
            },
            ["Limited", 5, 8, 2, 50],
        ),
    ],
)
def test_a_priority_level_shows_its_queues(show: Any, spec: Any, shown: list[Any]) -> None:
    row = show("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io/v1", spec=spec)
    assert list(row.values()) == ["x", *shown, "5m"]


@pytest.mark.parametrize(
    ("target", "status", "shown"),
    [
        ({"resource": "pods"}, {}, ["pods", "Unknown"]),
        ({"resource": "jobs", "group": "batch"}, with_conditions("Running"), ["jobs.batch", "Running"]),
        ({"resource": "pods"}, {"conditions": [{"type": "Failed", "status": "False"}]}, ["pods", "Unknown"]),
    ],
)
def test_migration_shows_resource_and_state(show: Any, target: Any, status: Any, shown: list[str]) -> None:
    row = show("storageversionmigrations.storagemigration.k8s.io/v1", spec={"resource": target}, status=status)
    assert list(row.values()) == ["x", *shown]
