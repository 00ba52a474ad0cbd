# SPDX-License-Identifier: Apache-2.0
"""Kernel settings of the proxy: limits of connection tracking, support of IPv6, version, and the OOM score."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import Final

from kubeloop.proxy.config.configuration import ConntrackConfiguration
from kubeloop.proxy.ip_family import IPV4, IPV6, IPFamily

MINIMUM_KERNEL: Final = (5, 13)
SKIP_VERSION_CHECK: Final = "KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK"
_LARGEST_MAX: Final = 1048576
_NETFILTER: Final = "proc/sys/net/netfilter"
_HASH_SIZE: Final = "sys/module/nf_conntrack/parameters/hashsize"

log = logging.getLogger(__name__)


class KernelSettingsError(Exception):
    """Raised if the kernel cannot be used, or a setting cannot be changed."""


def conntrack_settings(config: ConntrackConfiguration, cpus: int) -> dict[str, int]:
    """Return the kernel's settings of connection tracking by name; what is not in it stays as it is. Pure."""
    found: dict[str, int] = {}
    if config.max_per_core > 0:
        scaled = config.max_per_core * cpus
        found["nf_conntrack_max"] = _LARGEST_MAX if scaled > _LARGEST_MAX else max(scaled, config.min)
    timeouts = {
        "nf_conntrack_tcp_timeout_established": config.tcp_established_timeout,
        "nf_conntrack_tcp_timeout_close_wait": config.tcp_close_wait_timeout,
        "nf_conntrack_udp_timeout": config.udp_timeout,
        "nf_conntrack_udp_timeout_stream": config.udp_stream_timeout,
    }
    found |= {name: int(seconds) for name, seconds in timeouts.items() if seconds > 0}
    if config.tcp_be_liberal:
        found["nf_conntrack_tcp_be_liberal"] = 1
    return found


def apply_conntrack_settings(settings: dict[str, int], root: Path = Path("/")) -> None:
    """Change the kernel's settings that differ. Raises `KernelSettingsError`."""
    for name, value in settings.items():
        _write(root / _NETFILTER / name, value)
    maximum = settings.get("nf_conntrack_max", 0)
    if maximum and _read(root / _HASH_SIZE) < maximum // 4:
        _write(root / _HASH_SIZE, maximum // 4)


def online_cpus(root: Path = Path("/")) -> int:
    """Return the number of the machine's CPUs, also those that this process may not use."""
    try:
        ranges = (root / "sys/devices/system/cpu/online").read_text().strip().split(",")
        bounds = [(int(first), int(last or first)) for first, _, last in (one.partition("-") for one in ranges)]
        return sum(last - first + 1 for first, last in bounds)
    except (OSError, ValueError):
        return os.cpu_count() or 1


def supported_families(root: Path = Path("/")) -> tuple[IPFamily, ...]:
    """Return the families that the kernel supports in this network namespace."""
    if not (root / "proc/net/if_inet6").exists():
        return (IPV4,)
    try:
        is_disabled = (root / "proc/sys/net/ipv6/conf/all/disable_ipv6").read_text().strip() == "1"
    except OSError:
        is_disabled = False
    return (IPV4,) if is_disabled else (IPV4, IPV6)


def check_kernel_version(release: str) -> None:
    """Check a release such as `6.1.0-13-amd64`. Raises `KernelSettingsError`."""
    found = re.match(r"(\d+)\.(\d+)", release)
    version = tuple(map(int, found.groups())) if found is not None else (0, 0)
    if version < MINIMUM_KERNEL:
        wanted = ".".join(map(str, MINIMUM_KERNEL))
        raise KernelSettingsError(f"kube-proxy in nftables mode requires kernel {wanted} or later, this is {release}")


def apply_oom_score(score: int, root: Path = Path("/")) -> None:
    """Set the OOM score of this process, if that is permitted."""
    try:
        (root / "proc/self/oom_score_adj").write_text(str(score))
    except OSError as error:
        log.debug("the OOM score cannot be set: %s", error)


def _read(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError) as error:
        raise KernelSettingsError(f"{path} cannot be read: {error}") from None


def _write(path: Path, value: int) -> None:
    try:
        if int(path.read_text()) == value:
            return
        path.write_text(str(value))
        log.info("set %s to %s", path.name, value)
    except (OSError, ValueError) as error:
        raise KernelSettingsError(f"{path} cannot be set to {value}: {error}") from None
