# SPDX-License-Identifier: Apache-2.0
"""The mirror under a plan of faults: whatever goes wrong meanwhile, in the end every copy is right."""

from pathlib import Path

import pytest
import yaml
from mirror import NAME, SOURCE, wire

from kubeloop.testing import Cluster, config_map, namespace
from kubeloop.types.core_v1 import ConfigMap

PLAN = yaml.safe_load(Path(__file__).with_name("chaos.yaml").read_text())


@pytest.mark.parametrize("seed", range(5))
def test_all_copies_converge_under_faults(cluster: Cluster, seed: int) -> None:
    cluster.add(config_map(NAME, {"colour": "0"}, SOURCE))
    cluster.start(wire)
    chaos = cluster.chaos({**PLAN, "seed": seed})
    for number in range(1, 11):
        cluster.add(namespace(f"shop-{number}", labels={"mirror": "yes"}))
        cluster.client.patch(ConfigMap, NAME, {"data": {"colour": str(number)}}, SOURCE)
        cluster.advance(minutes=1)
    assert chaos.hits > 20, "no fault was injected"
    cluster.advance(minutes=20)  # calm again; after many failures the backoff is long
    copies = [cluster.client.get(ConfigMap, NAME, f"shop-{number}") for number in range(1, 11)]
    assert [copy.data["colour"] for copy in copies] == ["10"] * 10
