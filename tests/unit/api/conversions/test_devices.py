# SPDX-License-Identifier: Apache-2.0
"""Claims and slices of resource.k8s.io/v1beta1, which has other forms for the same things."""

from __future__ import annotations

from typing import Any

from kubeloop.api import codec
from kubeloop.api.conversions import devices
from kubeloop.api.generated import resource_v1 as v1
from kubeloop.api.generated import resource_v1beta1 as old

EXACT = {
    "deviceClassName": "gpu",
    "allocationMode": "ExactCount",
    "count": 2,
    "selectors": [{"cel": {"expression": "true"}}],
    "adminAccess": True,
    "tolerations": [{"operator": "Exists"}],
    "capacity": {"requests": {"memory": "1Gi"}},
}
CHOICE = {"name": "either", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}


def requests_of(claim: Any) -> Any:
    return codec.to_plain(claim)["spec"]["devices"]["requests"]


def test_exact_request_is_flattened_in_the_old_version() -> None:
    spec = {"devices": {"requests": [{"name": "one", **EXACT}, CHOICE]}}
    claim = codec.from_plain({"metadata": {"name": "c"}, "spec": spec}, old.ResourceClaim)
    stored = devices.claim_to_v1(claim)
    assert isinstance(stored, v1.ResourceClaim)
    first, second = requests_of(stored)
    assert first == {"name": "one", "exactly": EXACT}
    assert "exactly" not in second
    assert devices.claim_to_v1beta1(stored) == claim


def test_claim_templates_are_flattened() -> None:
    spec = {"spec": {"devices": {"requests": [{"name": "one", **EXACT}]}}}
    template = codec.from_plain({"spec": spec}, old.ResourceClaimTemplate)
    stored = devices.template_to_v1(template)
    assert stored.spec.spec.devices.requests[0].exactly.count == 2
    assert devices.template_to_v1beta1(stored) == template


def test_claim_without_requests_is_unchanged() -> None:
    assert devices.claim_to_v1beta1(devices.claim_to_v1(old.ResourceClaim())) == old.ResourceClaim()


def test_device_attributes_are_the_basic_part_in_the_old_version() -> None:
    basic = {"attributes": {"model": {"string": "x"}}, "capacity": {"memory": {"value": "1Gi"}}, "allNodes": True}
    spec = {"driver": "d", "nodeName": "n", "devices": [{"name": "a", "basic": basic}, {"name": "b", "basic": {}}]}
    piece = codec.from_plain({"spec": spec}, old.ResourceSlice)
    stored = devices.slice_to_v1(piece)
    assert codec.to_plain(stored)["spec"]["devices"] == [{"name": "a", **basic}, {"name": "b"}]
    assert (stored.spec.node_name, stored.spec.all_nodes) == ("n", None)
    assert devices.slice_to_v1beta1(stored) == piece
