# SPDX-License-Identifier: Apache-2.0
"""Address families of services: one or two, as the policy and the cluster have it."""

from __future__ import annotations

import pytest

from kubeloop.apiserver.registry.allocation import ServiceRanges
from tests.unit.apiserver.registry.allocation.cluster import SERVICES, assert_exact

V4, V6 = ["IPv4"], ["IPv6"]
BOTH = ["IPv4", "IPv6"]
POLICY = "spec.ipFamilyPolicy: Invalid value: "


def families(spec):
    """Return the service's families, checked against its addresses."""
    found = ["IPv6" if ":" in address else "IPv4" for address in spec["clusterIPs"]]
    assert found == spec["ipFamilies"]
    assert spec["clusterIPs"][0] == spec["clusterIP"]
    return spec["ipFamilyPolicy"], found


def why(answer):
    status, message = answer.refusal
    assert status == 422
    return message.partition(" is invalid: ")[2]


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ({}, ("SingleStack", V4)),
        ({"ipFamilyPolicy": "PreferDualStack"}, ("PreferDualStack", BOTH)),
        ({"ipFamilyPolicy": "RequireDualStack"}, ("RequireDualStack", BOTH)),
        ({"ipFamilies": V6}, ("SingleStack", V6)),
        ({"ipFamilies": V6, "ipFamilyPolicy": "PreferDualStack"}, ("PreferDualStack", BOTH[::-1])),
        ({"clusterIP": "fd00:10::9"}, ("SingleStack", V6)),
        ({"clusterIP": "10.0.0.9", "ipFamilyPolicy": "RequireDualStack"}, ("RequireDualStack", BOTH)),
        (
            {
                "clusterIP": "fd00:10::9",
                "clusterIPs": ["fd00:10::9", "10.0.0.9"],
                "ipFamilyPolicy": "PreferDualStack",
            },
            ("PreferDualStack", BOTH[::-1]),
        ),
    ],
)
def test_new_service_on_a_dual_stack_cluster(dual, asked, got):
    assert families(dual.create("web", **asked).spec) == got
    assert_exact(dual)


TWO_ALIKE = ["10.0.0.9", "10.0.0.8"]
TWO = "\"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple {} are specified"
MISFITS = [
    ({"ipFamilies": BOTH}, POLICY + TWO.format("IP families")),
    ({"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9", "fd00:10::9"]}, POLICY + TWO.format("cluster IPs")),
    ({"ipFamilies": V4 * 2}, 'spec.ipFamilies[1]: Duplicate value: "IPv4"'),
    (
        {"ipFamilyPolicy": "Both"},
        'spec.ipFamilyPolicy: Unsupported value: "Both": '
        'supported values: "PreferDualStack", "RequireDualStack", "SingleStack"',
    ),
    (
        {"clusterIP": "10.0.0.9", "ipFamilies": V6},
        'spec.clusterIPs[0]: Invalid value: "10.0.0.9": expected an IPv6 value as indicated by `ipFamilies[0]`',
    ),
    (
        {"clusterIPs": ["10.0.0.9"]},
        'spec.clusterIPs: Invalid value: ["10.0.0.9"]: must be empty when `clusterIP` is not specified',
    ),
    (
        {"clusterIP": "10.0.0.9", "clusterIPs": TWO_ALIKE, "ipFamilyPolicy": "RequireDualStack"},
        'spec.clusterIPs: Invalid value: ["10.0.0.9","10.0.0.8"]: may specify no more than one IP for each IP family',
    ),
    (
        {"clusterIP": "None", "clusterIPs": ["None", "10.0.0.8"]},
        'spec.clusterIPs: Invalid value: ["None","10.0.0.8"]: \'None\' must be the first and only value',
    ),
]


@pytest.mark.parametrize(("asked", "refusal"), MISFITS)
def test_inconsistent_families_are_rejected(dual, asked, refusal):
    assert why(dual.create("web", **asked)) == refusal


def test_single_stack_cluster_cannot_require_dual_stack(cluster):
    assert why(cluster.create("web", ipFamilyPolicy="RequireDualStack")) == (
        f'{POLICY}"RequireDualStack": this cluster is not configured for dual-stack services'
    )
    assert why(cluster.create("web", ipFamilies=V6)) == (
        'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'
    )
    assert why(cluster.create("web", clusterIP="fd00:10::9")) == (
        'spec.clusterIPs[0]: Invalid value: ["fd00:10::9"]: IPv6 is not configured on this cluster'
    )
    assert families(cluster.create("web", ipFamilyPolicy="PreferDualStack").spec) == ("PreferDualStack", V4)


def test_headless_service_without_selector_has_both_families(cluster):
    spec = cluster.create("bare", clusterIP="None").spec
    assert (spec["ipFamilyPolicy"], spec["ipFamilies"]) == ("RequireDualStack", BOTH)
    spec = cluster.create("selecting", clusterIP="None", selector={"a": "b"}).spec
    assert (spec["ipFamilyPolicy"], spec["ipFamilies"]) == ("SingleStack", V4)
    refused = cluster.create("c", clusterIP="None", selector={"a": "b"}, ipFamilyPolicy="RequireDualStack")
    assert "this cluster is not configured" in why(refused)


@pytest.mark.parametrize("policy", ["PreferDualStack", "RequireDualStack"])
def test_service_can_add_and_remove_a_second_family(dual, policy):
    first = dual.create("web").spec["clusterIP"]
    upgraded = dual.patch("web", ipFamilyPolicy=policy).spec
    assert families(upgraded) == (policy, BOTH)
    assert upgraded["clusterIP"] == first
    assert_exact(dual)
    downgraded = dual.patch("web", ipFamilyPolicy="SingleStack").spec
    assert families(downgraded) == ("SingleStack", V4)
    assert dual.recorded() == {first: "web"}
    assert_exact(dual)


def test_second_address_can_be_requested(dual):
    first = dual.create("web").spec["clusterIP"]
    spec = dual.patch("web", ipFamilyPolicy="RequireDualStack", clusterIPs=[first, "fd00:10::9"]).spec
    assert spec["clusterIPs"] == [first, "fd00:10::9"]
    taken = dual.create("late", clusterIP="fd00:10::9")
    assert "already allocated" in why(taken)


def test_only_the_policy_releases_the_second_address(dual):
    spec = dual.create("web", ipFamilyPolicy="RequireDualStack").spec
    assert why(dual.patch("web", clusterIPs=spec["clusterIPs"][:1])) == (
        f"{POLICY}\"RequireDualStack\": must be 'SingleStack' to release the secondary cluster IP"
    )
    assert why(dual.patch("web", ipFamilies=V4)) == (
        f"{POLICY}\"RequireDualStack\": must be 'SingleStack' to release the secondary IP family"
    )
    assert_exact(dual)


def test_prefer_dual_stack_is_not_reevaluated(cluster):
    cluster.create("web", ipFamilyPolicy="PreferDualStack")
    cluster.restart(ServiceRanges(("10.0.0.0/24", "fd00:10::/108")))
    assert families(cluster.patch("web", selector={"a": "b"}).spec) == ("PreferDualStack", V4)
    assert families(cluster.patch("web", ipFamilyPolicy="RequireDualStack").spec) == ("RequireDualStack", BOTH)
    assert_exact(cluster)


def test_reapplied_manifest_without_policy_keeps_both_addresses(dual):
    spec = dual.create("web", ipFamilyPolicy="RequireDualStack").spec
    manifest = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    assert dual.ask("PUT", f"{SERVICES}/web", manifest).spec["clusterIPs"] == spec["clusterIPs"]


def test_ipv6_can_be_the_primary_family(make_cluster):
    cluster = make_cluster("fd00:10::/112", "10.0.0.0/24")
    assert families(cluster.create("web").spec) == ("SingleStack", V6)
    assert families(cluster.create("two", ipFamilyPolicy="PreferDualStack").spec) == ("PreferDualStack", BOTH[::-1])


def test_rejected_second_address_releases_the_first(dual):
    dual.create("web", clusterIP="fd00:10::9")
    wanted = {"clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9", "fd00:10::9"]}
    assert "already allocated" in why(dual.create("late", ipFamilyPolicy="RequireDualStack", **wanted))
    assert dual.create("next", clusterIP="10.0.0.9").status == 201
    assert_exact(dual)
