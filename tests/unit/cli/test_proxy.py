# SPDX-License-Identifier: Apache-2.0
"""`kubeloop proxy` and `kubeloop why-packet`: flags, files and pages."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kubeloop.api.generated.core_v1 import Node, NodeAddress, NodeStatus
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.cli.main import main, parse_command
from kubeloop.cli.proxy.flags import ProxyOptions, proxy_options_of
from kubeloop.cli.proxy.packet_diagnosis import explain_packet, render
from kubeloop.cli.proxy.pages import ProxyPages
from kubeloop.cli.proxy.startup import server_of, wait_file_changed
from kubeloop.client.errors import ConfigError
from kubeloop.clock import SystemClock
from kubeloop.http import Request
from kubeloop.metrics import MetricRegistry
from kubeloop.proxy.config.configuration import KubeProxyConfiguration
from kubeloop.proxy.offline_table import ClusterObjects
from kubeloop.runtime.component_config import ComponentConfigError
from kubeloop.sim.loop import run_virtual
from tests.unit.proxy.objects import ready, service, slice_of

FILE = """
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: 10.244.0.0/16
hostnameOverride: filed
ipvs: {scheduler: rr}
"""


def options_of(*arguments: str) -> ProxyOptions:
    return proxy_options_of(parse_command(["proxy", *arguments]))


def test_flags_set_fields() -> None:
    found = options_of(
        *("--cluster-cidr", "10.0.0.0/8", "--masquerade-all", "--nodeport-addresses", "primary,192.0.2.0/24"),
        *("--iptables-sync-period", "10s", "--iptables-min-sync-period=0s", "--oom-score-adj=-5", "-v", "4"),
        *("--feature-gates", "AllowServiceExternalIPs=false", "--hostname-override", " N1 ", "--kube-api-qps", "7.5"),
    )
    config = found.config
    assert (config.cluster_cidr, config.nftables.masquerade_all) == ("10.0.0.0/8", True)
    assert config.node_port_addresses == ("primary", "192.0.2.0/24")
    assert (config.nftables.sync_period, config.nftables.min_sync_period) == (10, 0)
    assert (config.oom_score_adj, config.logging.verbosity, found.node_name) == (-5, 4, "n1")
    assert (config.feature_gates, config.client_connection.qps) == ({"AllowServiceExternalIPs": False}, 7.5)
    assert found.warnings == ()


def test_deprecated_ports() -> None:
    config = options_of("--healthz-port", "9999", "--metrics-port", "0").config
    assert (config.healthz_bind_address, config.metrics_bind_address) == ("0.0.0.0:9999", "")
    config = options_of("--healthz-bind-address", "192.0.2.1", "--healthz-port", "7").config
    assert config.healthz_bind_address == "192.0.2.1:7"
    assert options_of().config == KubeProxyConfiguration()


def test_file_replaces_flags_except_those_of_name_and_log(tmp_path: Path) -> None:
    path = tmp_path / "proxy.yaml"
    path.write_text(FILE)
    found = options_of("--config", str(path), "--cluster-cidr", "10.0.0.0/8", "--v", "2")
    assert (found.config.cluster_cidr, found.config.logging.verbosity) == ("10.244.0.0/16", 2)
    assert found.node_name == "filed"
    assert found.warnings == (
        "flags without effect next to --config: cluster-cidr",
        "fields of the configuration without effect: ipvs",
    )
    assert options_of("--config", str(path), "--hostname-override", "n2").node_name == "n2"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: KubeProxyConfiguration", "no apiVersion/kind"),
        (FILE + "extra: 1", "unknown field `extra`"),
        (FILE.replace("mode: nftables", "mode: ipvs"), "only the mode nftables is implemented"),
        ("{", "--config"),
        (FILE + "mode: nftables", "mode"),  # twice
    ],
)
def test_bad_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "proxy.yaml"
    path.write_text(text)
    with pytest.raises(ComponentConfigError, match=message):
        options_of("--config", str(path))


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ComponentConfigError, match="no such file"):
        options_of("--config", str(tmp_path / "none"))


def test_flags_without_effect_are_named() -> None:
    found = options_of("--vmodule", "x=1", "--ipvs-scheduler", "rr")
    assert found.warnings == (
        "--vmodule has no effect: it names Go files; use --v",
        "fields of the configuration without effect: ipvs",
    )


def test_bad_configuration_ends_the_program() -> None:
    command = [sys.executable, "-m", "kubeloop", "proxy", "--proxy-mode", "iptables"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "only the mode nftables is implemented" in done.stderr


def test_defaults_are_written_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "defaults.yaml"
    assert main(["proxy", "--write-config-to", str(path)]) == 0
    assert options_of("--config", str(path)).config == KubeProxyConfiguration()


def test_change_of_a_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "proxy.yaml"
    path.write_text("a")

    async def main() -> None:
        waiting = asyncio.create_task(wait_file_changed(path))
        await asyncio.sleep(60)
        path.unlink()
        await asyncio.sleep(60)
        assert not waiting.done()
        path.write_text("changed")
        await asyncio.wait_for(waiting, 60)

    run_virtual(main())


def test_server_outside_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError):
        server_of(options_of())
    assert server_of(options_of("--master", "http://127.0.0.1:1")).server == "http://127.0.0.1:1"


def test_pages() -> None:
    pages = ProxyPages(KubeProxyConfiguration(), MetricRegistry(), {"v": "0"}, SystemClock())

    def get(path: str) -> tuple[int, str]:
        response = asyncio.run(pages.handle(Request("GET", path)))
        assert isinstance(response.body, bytes)
        return response.status, response.body.decode()

    assert get("/proxyMode") == (200, "nftables")
    assert get("/healthz") == (200, "ok")
    assert json.loads(get("/configz")[1])["kubeproxy.config.k8s.io"]["nftables"]["syncPeriod"] == "30s"
    assert "kubernetes_build_info" in get("/metrics")[1]
    assert "v=0" in get("/flagz")[1]
    assert "kube-proxy statusz" in get("/statusz")[1]
    assert get("/other")[0] == 404


def node() -> Node:
    address = NodeAddress(type="InternalIP", address="192.0.2.1")
    return Node(metadata=ObjectMeta(name="n1"), status=NodeStatus(addresses=(address,)))


def explain(*arguments: str) -> str:
    options = parse_command(["why-packet", *arguments, "--node", "n1", "--cluster-cidr", "10.244.0.0/16"])
    services = [service(node_port=30001, type="NodePort"), service("other", "10.96.0.2")]
    objects = ClusterObjects(services, [slice_of("web", ready("10.244.0.1", "n1"))], ("10.96.0.0/16",))
    return render(explain_packet(options, node(), objects), options.output)


def test_packets_are_explained() -> None:
    assert explain("10.96.0.1", "80", "--from", "10.244.0.1") == (
        "forward: ns/web:p\nendpoints: 10.244.0.1:8080\n"
        "masquerade: no, except to 10.244.0.1:8080, which is the source itself"
    )
    assert explain("192.0.2.1", "30001", "--from", "198.51.100.1").endswith("masquerade: yes")
    assert explain("10.96.0.2", "80").startswith("reject: ns/other:p\nreason: reject-chain: reject")
    assert explain("10.96.0.9", "80").startswith("drop: no Service\nreason: cluster-ips-check: Drop traffic")
    assert explain("203.0.113.1", "80") == "pass: no Service\nreason: no rule concerns the packet"


def test_explanation_for_programs() -> None:
    found = json.loads(explain("10.96.0.1", "80", "--output", "json"))
    assert (found["verdict"], found["servicePort"], found["endpoints"]) == ("forward", "ns/web:p", ["10.244.0.1:8080"])
    assert found["steps"][-1] == "endpoints-tcp-1: dnat to 10.244.0.1:8080"
