# SPDX-License-Identifier: Apache-2.0
"""Kernel settings of pods (sysctls): the safe ones, those that the node allows, and their namespaces. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from kubeloop.api.generated.core_v1 import Pod

Namespace = Literal["IPC", "Net", "UTS", "User"]
FORBIDDEN: Final = "SysctlForbidden"
_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_NAME: Final = re.compile(rf"({_SEGMENT}[\./])*{_SEGMENT}")
_PATTERN_FORMAT: Final = rf"({_SEGMENT}[\./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]"
_PATTERN: Final = re.compile(_PATTERN_FORMAT)
_LONGEST: Final = 253
_IPC: Final = (
    *("kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni", "kernel.shm_rmid_forced", "kernel.shm"),
    *("kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.msg"),
)
_NAMESPACES: Final[Mapping[str, Namespace]] = {"kernel.domainname": "UTS", **dict.fromkeys(_IPC, "IPC")}
_PREFIXES: Final[Mapping[str, Namespace]] = {"net.": "Net", "fs.mqueue.": "IPC", "user.": "User"}
# Safe settings, with the kernel since which each is one of a namespace.
_SAFE: Final[Mapping[str, tuple[int, int]]] = {
    "kernel.shm_rmid_forced": (0, 0),
    "net.ipv4.ip_local_port_range": (0, 0),
    "net.ipv4.tcp_syncookies": (0, 0),
    "net.ipv4.ping_group_range": (0, 0),
    "net.ipv4.ip_unprivileged_port_start": (0, 0),
    "net.ipv4.ip_local_reserved_ports": (3, 16),
    "net.ipv4.tcp_keepalive_time": (4, 5),
    "net.ipv4.tcp_fin_timeout": (4, 6),
    "net.ipv4.tcp_keepalive_intvl": (4, 5),
    "net.ipv4.tcp_keepalive_probes": (4, 5),
    "net.ipv4.tcp_rmem": (4, 15),
    "net.ipv4.tcp_wmem": (4, 15),
    "net.ipv4.tcp_slow_start_after_idle": (4, 15),
    "net.ipv4.tcp_notsent_lowat": (4, 6),
}


def normalize_name(name: str) -> str:
    """Return a name with dots as separators: `net/ipv4/conf/eth0.1/x` is `net.ipv4.conf.eth0/1.x`."""
    separators = [char for char in name if char in "./"]
    if not separators or separators[0] == ".":
        return name
    return name.translate(str.maketrans("./", "/."))


def namespace_of(name: str) -> Namespace | None:
    """Return the kernel's namespace of a setting or pattern; None if it is not known to have one."""
    normal = normalize_name(name).partition("*")[0]
    if (found := _NAMESPACES.get(normal)) is not None:
        return found
    return next((space for prefix, space in _PREFIXES.items() if normal.startswith(prefix)), None)


def is_valid_sysctl(name: str) -> bool:
    """Return True if a name has the form of a setting's name."""
    return len(name) <= _LONGEST and _NAME.fullmatch(name) is not None


def check_sysctl_patterns(patterns: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with names and patterns of settings that a node allows."""
    for one in patterns:
        if len(one) > _LONGEST or _PATTERN.fullmatch(one) is None:
            yield f'sysctl "{one}" must have at most {_LONGEST} characters and match regex {_PATTERN_FORMAT}'
        elif namespace_of(one) is None:
            yield f'the sysctls "{normalize_name(one).partition("*")[0]}" are not known to be namespaced'


def kernel_version(release: str) -> tuple[int, int]:
    """Return the version of a kernel release such as 6.1.0-18-amd64."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else (0, 0)


class SysctlAllowlist(NamedTuple):
    """Settings that pods may have: names and prefixes."""

    names: frozenset[str]
    prefixes: tuple[str, ...] = ()

    def rejection(self, pod: Pod) -> str:
        """Return why a pod is rejected; empty if all of its settings are allowed."""
        context = pod.spec.security_context
        for one in context.sysctls if context is not None else ():
            if problem := self._problem(normalize_name(one.name), pod):
                return f"forbidden sysctl: {problem}"
        return ""

    def _problem(self, name: str, pod: Pod) -> str:
        if name not in self.names and not name.startswith(self.prefixes):
            return f'"{name}" not allowlisted'
        space, spec = namespace_of(name), pod.spec
        shared = {"IPC": spec.host_ipc, "Net": spec.host_network, "User": spec.host_users is not False}
        return f'"{name}" not allowed with host {space} enabled' if space is not None and shared.get(space) else ""


def new_allowlist(unsafe: Iterable[str], kernel: tuple[int, int]) -> SysctlAllowlist:
    """Return the safe settings of a kernel and the given ones, which may end with `*`."""
    given = [normalize_name(one) for one in unsafe]
    safe = (name for name, since in _SAFE.items() if kernel >= since)
    names = frozenset((*safe, *(one for one in given if "*" not in one)))
    return SysctlAllowlist(names, tuple(one.partition("*")[0] for one in given if "*" in one))
