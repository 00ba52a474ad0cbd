# SPDX-License-Identifier: Apache-2.0
"""Configuration of `kubeloop kubelet`: files, drop-ins, flags, and the checks of the machine."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubeloop.api.kubelet_requests import NodeRequest
from kubeloop.cli.kubelet.config_files import drop_ins, load_configuration
from kubeloop.cli.kubelet.config_flags import CONFIG_FLAGS, effective_values, flag_overrides
from kubeloop.cli.kubelet.flags import add_flags
from kubeloop.cli.kubelet.host_settings import check_host
from kubeloop.cli.kubelet.real_node import container_manager_config, resource_policy
from kubeloop.cli.kubelet.run import _warn
from kubeloop.cli.kubelet.zpages import kubelet_zpages
from kubeloop.clock import SystemClock
from kubeloop.kubelet.cm.cgroups.qos import QosPolicy
from kubeloop.kubelet.cm.cgroups.resource_config import PodCgroupPolicy
from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration
from kubeloop.kubelet.config.unsupported_fields import NO_EFFECT, REFUSED
from kubeloop.kubelet.cri.config.resource_policy import MemoryQosPolicy
from kubeloop.runtime.component_config import ComponentConfigError

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


def options(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_flags(parser)
    return parser.parse_args(["--kubeconfig=x.conf", *flags])


def load(*flags: str) -> KubeletConfiguration:
    return load_configuration(options(*flags))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kubelet.yaml"
    path.write_text(HEAD + "maxPods: 5\nsyncFrequency: 2m\nstaticPodPath: manifests\nclusterDNS: [10.0.0.10]\n")
    return path


def test_flags_come_before_drop_ins_before_the_file(file: Path) -> None:
    folder = file.parent / "drop-ins"
    (folder / "sub").mkdir(parents=True)
    (folder / "20.conf").write_text(HEAD + "maxPods: 20\nclusterDNS: [10.0.0.20]\n")
    (folder / "10.conf").write_text(HEAD + "maxPods: 10\nport: 1010\npodsPerCore: 3\n")
    (folder / "sub" / "30.conf").write_text(HEAD + "podsPerCore: 4\n")
    (folder / "99.yaml").write_text("not read")
    assert [one.name for one in drop_ins(folder)] == ["10.conf", "20.conf", "30.conf"]
    found = load(f"--config={file}", f"--config-dir={folder}", "--port=9999")
    assert (found.max_pods, found.port, found.pods_per_core) == (20, 9999, 4)
    assert found.cluster_dns == ("10.0.0.20",)
    assert found.sync_frequency == 120
    assert load(f"--config={file}").max_pods == 5
    assert load(f"--config={file}", "--max-pods=7").max_pods == 7
    assert load().max_pods == 110


def test_relative_paths_are_those_of_the_files_folder(file: Path) -> None:
    assert load(f"--config={file}").static_pod_path == str(file.parent / "manifests")
    assert load("--pod-manifest-path=manifests").static_pod_path == "manifests"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "the file is empty"),
        (HEAD + "maxPods: 1\nmaxPods: 2\n", 'key "maxPods" already set in map'),
        (HEAD + "maxPodz: 1\n", "unknown field `maxPodz`"),
        ("maxPods: 1\n", "no apiVersion/kind"),
        (HEAD + "maxPods: [\n", "yaml: "),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    (tmp_path / "x.conf").write_text(content)
    for flag in (f"--config={tmp_path}/x.conf", f"--config-dir={tmp_path}"):
        with pytest.raises(ComponentConfigError, match=f"x.conf: .*{problem}"):
            load(flag)


def test_missing_files_are_errors(tmp_path: Path) -> None:
    for flag in (f"--config={tmp_path}/none", f"--config-dir={tmp_path}/none"):
        with pytest.raises(ComponentConfigError, match="none: no such file"):
            load(flag)


def test_invalid_values_are_told_together() -> None:
    with pytest.raises(
        ComponentConfigError, match=r"^\[invalid configuration: maxPods .*, invalid configuration: .*\]$"
    ):
        load("--max-pods=-1", "--pods-per-core=-1")


def test_maps_and_lists_of_flags() -> None:
    found = load(
        "--eviction-hard=memory.available<1Gi",
        "--eviction-hard=nodefs.available<5%",
        "--eviction-soft=memory.available<2Gi",
        "--eviction-soft-grace-period=memory.available=1m",
        "--feature-gates=MemoryQoS=false",
        "--feature-gates=NodeLogQuery=true",
        "--system-reserved=cpu=1,memory=1Gi",
        "--reserved-memory=0:memory=1Gi;1:memory=2Gi",
        "--allowed-unsafe-sysctls=net.core.somaxconn,kernel.msg*",
    )
    assert found.eviction_hard == {"memory.available": "1Gi", "nodefs.available": "5%"}
    assert found.eviction_soft_grace_period == {"memory.available": "1m"}
    assert flag_overrides(options("--manifest-url-header=a:1,b:2", "--manifest-url-header=a:3")) == {
        ("staticPodURLHeader",): {"a": ["1", "3"], "b": ["2"]}
    }
    assert found.feature_gates == {"MemoryQoS": False, "NodeLogQuery": True}
    assert found.system_reserved == {"cpu": "1", "memory": "1Gi"}
    assert [(one.numa_node, one.limits) for one in found.reserved_memory] == [
        (0, {"memory": "1Gi"}),
        (1, {"memory": "2Gi"}),
    ]
    assert found.allowed_unsafe_sysctls == ("net.core.somaxconn", "kernel.msg*")


def test_every_flag_sets_a_field_of_the_configuration() -> None:
    plain = msgspec.to_builtins(KubeletConfiguration(), enc_hook=str)
    for flag in CONFIG_FLAGS:
        part: Any = plain
        for name in flag.path:
            assert name in part, flag
            part = part[name]


def test_fields_that_nothing_enforces_are_refused(file: Path) -> None:
    for name, value in (("qosReserved", "{memory: 50%}"), ("enableControllerAttachDetach", "false")):
        file.write_text(f"{HEAD}{name}: {value}\n")
        with pytest.raises(ComponentConfigError, match=f"field {name} can only have its default value in kubeloop: "):
            load(f"--config={file}")


def test_tables_of_fields_name_fields_and_are_disjoint() -> None:
    names = {one.encode_name for one in msgspec.structs.fields(KubeletConfiguration)}
    assert not {*NO_EFFECT, *REFUSED} - names
    assert not NO_EFFECT.keys() & REFUSED.keys()
    page = (Path(__file__).parents[3] / "docs" / "real-nodes.md").read_text()
    for name, reason in (*NO_EFFECT.items(), *REFUSED.items()):
        assert f"| `{name}` | {reason} |" in page


def test_fields_and_flags_without_effect_are_told_in_a_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        _warn(load(), options())
        assert caplog.messages == []
        given = options("--hairpin-mode=none", "--volume-plugin-dir=/x", "--runtime-cgroups=/y", "--vmodule=a=1")
        _warn(load_configuration(given), given)
    fields, flags = caplog.messages
    assert fields == (
        "fields of the configuration without effect: hairpinMode (the CNI plugin decides), "
        "volumePluginDir (there are no flex volumes)"
    )
    assert flags == "flags without effect: --runtime-cgroups, --vmodule"


@pytest.mark.parametrize(
    "wrong", ["--lock-file=x", "--maximum-dead-containers=5", "--minimum-container-ttl-duration=1m"]
)
def test_unsupported_flags_are_rejected(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options(wrong)
    assert wrong.partition("=")[0] in capsys.readouterr().err


def test_pages_show_the_effective_configuration(file: Path) -> None:
    settings = load(f"--config={file}", "--anonymous-auth")
    pages = kubelet_zpages({}, SystemClock(), settings)
    body = pages["configz"](NodeRequest(method="GET", path="/configz")).body
    assert isinstance(body, bytes)
    shown = msgspec.json.decode(body)["kubeletconfig"]
    assert (shown["maxPods"], shown["syncFrequency"], shown["kind"]) == (5, "2m0s", "KubeletConfiguration")
    assert shown["authentication"]["anonymous"] == {"enabled": True}
    flags = effective_values(settings)
    assert (flags["max-pods"], flags["anonymous-auth"], flags["cluster-dns"]) == ("5", "true", "[10.0.0.10]")


def machine(root: Path, swap: str = "", unified: bool = True, panic: str = "10") -> Path:
    sizes = {"overcommit_memory": "1", "panic_on_oom": "0"}
    files = {
        "proc/swaps": f"Filename Type\n{swap}",
        **{f"proc/sys/vm/{name}": value for name, value in sizes.items()},
        "proc/sys/kernel/panic": panic,
        "proc/sys/kernel/panic_on_oops": "1",
        "proc/sys/kernel/keys/root_maxkeys": "1000000",
        "proc/sys/kernel/keys/root_maxbytes": "25000000",
        **({"sys/fs/cgroup/cgroup.controllers": ""} if unified else {}),
    }
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n" if content else content)
    return root


@pytest.mark.parametrize(
    ("fields", "facts", "problem"),
    [
        ({}, {}, ""),
        ({}, {"swap": "/dev/sda2 partition"}, "running with swap on is not supported"),
        ({"fail_swap_on": False}, {"swap": "/dev/sda2 partition"}, ""),
        ({}, {"unified": False}, ""),
        ({"fail_cgroup_v1": True}, {"unified": False}, "not run on a host using cgroup v1"),
        ({"single_process_oom_kill": False}, {"unified": False}, "singleProcessOOMKill must not"),
        ({"protect_kernel_defaults": True}, {}, ""),
        (
            {"protect_kernel_defaults": True},
            {"panic": "0"},
            "invalid kernel flag: kernel/panic, expected value: 10, actual value: 0",
        ),
        ({}, {"panic": "0"}, ""),
    ],
)
def test_a_machine_that_the_configuration_excludes_is_refused(
    tmp_path: Path, fields: dict[str, Any], facts: dict[str, Any], problem: str
) -> None:
    found = check_host(KubeletConfiguration(**fields), machine(tmp_path, **facts))
    assert len(found) == bool(problem)
    assert problem in "".join(found)


def test_reservations_and_limits_of_processes_reach_the_control_groups() -> None:
    found = container_manager_config(
        load(
            "--cgroup-driver=systemd",
            "--system-reserved=cpu=1",
            "--kube-reserved=memory=1Gi",
            "--kube-reserved-cgroup=/kube",
            "--enforce-node-allocatable=pods,kube-reserved",
            "--pod-max-pids=100",
            "--eviction-hard=memory.available<1Gi",
        ),
        1,
    )
    assert (found.cgroup_root, found.cgroup_driver, found.pods.pids_limit) == ("/", "systemd", 100)
    node = found.node_allocatable
    assert (node.system_reserved, node.kube_reserved, node.kube_reserved_cgroup) == (
        {"cpu": "1"},
        {"memory": "1Gi"},
        "/kube",
    )
    assert node.enforced == {"pods", "kube-reserved"}
    assert [(one.signal, one.amount) for one in node.hard_eviction] == [("memory.available", 1 << 30)]
    assert container_manager_config(load("--enforce-node-allocatable=none"), 1).node_allocatable.enforced == frozenset()


def test_cpu_quota_and_memory_qos_reach_the_control_groups_and_containers(file: Path) -> None:
    file.write_text(
        f"{HEAD}cpuCFSQuota: false\ncpuCFSQuotaPeriod: 10ms\nmemoryReservationPolicy: TieredReservation\n"
        "memoryThrottlingFactor: 0.8\nmemorySwap: {swapBehavior: LimitedSwap}\nsingleProcessOOMKill: false\n"
    )
    settings = load(f"--config={file}")
    new = container_manager_config(settings, 2)
    assert new.pods == PodCgroupPolicy(False, 10_000, -1, True, True, 0.8)
    assert new.qos == QosPolicy(memory_qos=True, reserves_memory=True)
    old = container_manager_config(settings, 1)
    assert (old.pods.memory_qos, old.qos.memory_qos) == (False, False)
    limits = resource_policy(settings, 2, 1 << 30)
    assert (limits.enforces_cpu_limits, limits.cpu_period, limits.single_process_oom_kill) == (False, 10_000, False)
    assert limits.swap.behavior == "LimitedSwap"
    assert limits.memory_qos == MemoryQosPolicy(True, True, 0.8, 1 << 30)
    file.write_text(HEAD)
    off = resource_policy(load(f"--config={file}", "--feature-gates=MemoryQoS=false"), 2, 1)
    assert off.memory_qos == MemoryQosPolicy(allocatable=1)
