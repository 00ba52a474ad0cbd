# SPDX-License-Identifier: Apache-2.0
"""Decoding of KubeletConfiguration documents: drop-ins, defaults, values of flags."""

from __future__ import annotations

from typing import Any

import pytest

from kubeloop.kubelet.config.decode import check_document, decode_configuration, merge_patch
from kubeloop.kubelet.config.kubelet_configuration import DEFAULT_EVICTION_HARD, KubeletConfiguration
from kubeloop.runtime.component_config import ComponentConfigError

HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def decode(**fields: Any) -> KubeletConfiguration:
    return decode_configuration(check_document({**HEAD, **fields}), {})


def test_an_empty_document_has_the_defaults() -> None:
    assert decode() == KubeletConfiguration()


@pytest.mark.parametrize(
    ("field", "value", "attribute"),
    [
        ("maxPods", 0, "max_pods"),
        ("syncFrequency", "0s", "sync_frequency"),
        ("cgroupDriver", "", "cgroup_driver"),
        ("kubeAPIBurst", 0, "kube_api_burst"),
        ("maxPods", None, "max_pods"),
        ("healthzPort", None, "healthz_port"),
    ],
)
def test_zero_and_null_mean_the_default(field: str, value: Any, attribute: str) -> None:
    assert getattr(decode(**{field: value}), attribute) == getattr(KubeletConfiguration(), attribute)


@pytest.mark.parametrize(
    ("field", "value", "attribute"),
    [
        ("healthzPort", 0, "healthz_port"),
        ("registryPullQPS", 0, "registry_pull_qps"),
        ("enableServer", False, "enable_server"),
        ("resolvConf", "", "resolv_conf"),
        ("evictionHard", {}, "eviction_hard"),
    ],
)
def test_zero_is_a_value_where_upstreams_field_is_a_pointer(field: str, value: Any, attribute: str) -> None:
    assert getattr(decode(**{field: value}), attribute) == value


def test_zero_means_the_default_within_parts() -> None:
    found = decode(
        authentication={"webhook": {"cacheTTL": "0s", "enabled": False}, "anonymous": {"enabled": True}},
        authorization={"mode": "", "webhook": {"cacheAuthorizedTTL": "1m"}},
    )
    assert (found.authentication.webhook.cache_ttl, found.authentication.webhook.enabled) == (120, False)
    assert found.authentication.anonymous.enabled
    assert found.authorization.mode == "Webhook"
    assert found.authorization.webhook.cache_authorized_ttl == 60


def test_some_defaults_follow_from_other_fields() -> None:
    assert decode(nodeStatusUpdateFrequency="20s").node_status_report_frequency == 20
    assert decode(nodeStatusUpdateFrequency="20s", nodeStatusReportFrequency="1m").node_status_report_frequency == 60
    assert not decode(maxParallelImagePulls=2).serialize_image_pulls
    assert decode(maxParallelImagePulls=1).serialize_image_pulls
    assert decode(podPidsLimit=-7).pod_pids_limit == -1
    hard = {"memory.available": "1Gi"}
    assert decode(evictionHard=hard).eviction_hard == hard
    merged = decode(evictionHard=hard, mergeDefaultEvictionSettings=True).eviction_hard
    assert merged == {**DEFAULT_EVICTION_HARD, **hard}


def test_fields_of_features_that_are_off_have_no_default() -> None:
    gates = {"KubeletCrashLoopBackOffMax": False, "KubeletEnsureSecretPulledImages": False}
    found = decode(featureGates=gates)
    assert found.crash_loop_back_off.max_container_restart_period is None
    assert found.max_restart_seconds == 300
    assert found.image_pull_credentials_verification_policy == ""
    assert decode(crashLoopBackOff={"maxContainerRestartPeriod": "5s"}).max_restart_seconds == 5


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"maxPods": 5}, "no apiVersion/kind"),
        ({**HEAD, "kind": "Pod"}, "unknown apiVersion/kind"),
        ({**HEAD, "apiVersion": "kubelet.config.k8s.io/v1"}, "unknown apiVersion/kind"),
        ({**HEAD, "maxpods": 5}, "unknown field `maxpods`"),
        ({**HEAD, "authentication": {"webhook": {"ttl": "1s"}}}, "unknown field `ttl` - at `.*webhook`"),
        ({**HEAD, "maxPods": "many"}, r"at `\$.maxPods`"),
        ({**HEAD, "syncFrequency": "soon"}, "invalid duration"),
        ({**HEAD, "syncFrequency": 5}, "is not a duration"),
        ([], "not an object"),
    ],
)
def test_documents_that_are_no_configuration_are_refused(document: Any, problem: str) -> None:
    with pytest.raises(ComponentConfigError, match=problem):
        check_document(document)


def test_an_unknown_feature_gate_is_refused() -> None:
    with pytest.raises(ComponentConfigError, match="unrecognized feature gate: Nonsense"):
        decode(featureGates={"Nonsense": True})


def test_a_drop_in_merges_maps_and_replaces_lists() -> None:
    base = {"clusterDNS": ["1.1.1.1"], "evictionHard": {"memory.available": "1Gi"}, "maxPods": 5}
    patch = {"clusterDNS": ["2.2.2.2"], "evictionHard": {"nodefs.available": "5%"}, "maxPods": None}
    assert merge_patch(base, patch) == {
        "clusterDNS": ["2.2.2.2"],
        "evictionHard": {"memory.available": "1Gi", "nodefs.available": "5%"},
    }


def test_flags_take_precedence_and_feature_gates_are_merged() -> None:
    document = {
        **HEAD,
        "maxPods": 5,
        "evictionHard": {"memory.available": "1Gi"},
        "featureGates": {"NodeLogQuery": True, "MemoryQoS": True},
    }
    flags = {
        ("maxPods",): 7,
        ("evictionHard",): {"nodefs.available": "1%"},
        ("authentication", "anonymous", "enabled"): True,
        ("featureGates",): {"MemoryQoS": False},
        ("port",): 0,
    }
    found = decode_configuration(document, flags)
    assert (found.max_pods, found.port) == (7, 0)
    assert found.eviction_hard == {"nodefs.available": "1%"}
    assert found.authentication.anonymous.enabled
    assert found.authentication.webhook.enabled
    assert found.feature_gates == {"NodeLogQuery": True, "MemoryQoS": False}
