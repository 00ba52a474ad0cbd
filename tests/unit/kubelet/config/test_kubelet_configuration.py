# SPDX-License-Identifier: Apache-2.0
"""KubeletConfiguration: fields, defaults and their form in files."""

from __future__ import annotations

import msgspec
import pytest

from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration, to_plain
from kubeloop.runtime.component_config import ConfigDuration, decode_duration, wire_name


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("max_pods", "maxPods"),
        ("static_pod_url_header", "staticPodURLHeader"),
        ("image_gc_high_threshold_percent", "imageGCHighThresholdPercent"),
        ("cpu_cfs_quota_period", "cpuCFSQuotaPeriod"),
        ("make_iptables_util_chains", "makeIPTablesUtilChains"),
        ("resolv_conf", "resolvConf"),
        ("config_map_and_secret_change_detection_strategy", "configMapAndSecretChangeDetectionStrategy"),
    ],
)
def test_fields_are_named_as_upstream_names_them(field: str, name: str) -> None:
    assert wire_name(field) == name
    assert name in {one.encode_name for one in msgspec.structs.fields(KubeletConfiguration)}


def test_the_plain_form_decodes_to_the_same_configuration() -> None:
    config = KubeletConfiguration(max_pods=7, sync_frequency=ConfigDuration(90), cluster_dns=("10.0.0.10",))
    plain = to_plain(config)
    assert plain["syncFrequency"] == "1m30s"
    assert plain["clusterDNS"] == ("10.0.0.10",)
    assert msgspec.convert(plain, KubeletConfiguration, dec_hook=decode_duration) == config


def test_unknown_fields_are_refused_at_every_level() -> None:
    for content in ({"maxPodz": 1}, {"authentication": {"webhook": {"enable": True}}}):
        with pytest.raises(msgspec.ValidationError, match="unknown field"):
            msgspec.convert(content, KubeletConfiguration, dec_hook=decode_duration)
