# SPDX-License-Identifier: Apache-2.0
"""Checks the machine of a real node as its configuration demands, and sets limits of the kubelet's process."""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kubeloop.kubelet.config.kubelet_configuration import KubeletConfiguration

# Kernel settings that the kubelet expects, below /proc/sys.
_KERNEL: Final = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}

log = logging.getLogger(__name__)


def check_host(settings: KubeletConfiguration, root: Path = Path("/")) -> list[str]:
    """Return why a kubelet with these settings must not start on this machine."""
    return [*_swap(settings, root), *_control_groups(settings, root), *_kernel(settings, root)]


def limit_process(settings: KubeletConfiguration, root: Path = Path("/")) -> None:
    """Set the OOM score and the number of open files of this process, as far as the system allows it."""
    try:
        (root / "proc/self/oom_score_adj").write_text(str(settings.oom_score_adj))
    except OSError as error:
        log.info("the OOM score of the kubelet could not be set to %s: %s", settings.oom_score_adj, error.strerror)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.max_open_files
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, max(wanted, hard)))
    except (OSError, ValueError) as error:
        log.info("the kubelet cannot open %s files: %s", wanted, error)


def _swap(settings: KubeletConfiguration, root: Path) -> Iterator[str]:
    """Check that swap is off, if it must be; memory that only temporary file systems can swap to does not count."""
    lines = [line for line in _read(root / "proc/swaps").splitlines()[1:] if line.strip()]
    if settings.fail_swap_on and lines:
        shown = "; ".join(lines)
        yield f"running with swap on is not supported, please disable swap or set --fail-swap-on to false: {shown}"


def _control_groups(settings: KubeletConfiguration, root: Path) -> Iterator[str]:
    is_unified = (root / "sys/fs/cgroup/cgroup.controllers").exists()
    if settings.fail_cgroup_v1 and not is_unified:
        yield (
            "kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will be "
            "removed in a future release"
        )
    if not is_unified and settings.single_process_oom_kill is False:
        yield ("invalid configuration: singleProcessOOMKill must not be explicitly set to false when using cgroup v1")


def _kernel(settings: KubeletConfiguration, root: Path) -> Iterator[str]:
    if not settings.protect_kernel_defaults:
        return
    for name, expected in _KERNEL.items():
        found = _read(root / "proc/sys" / name).strip()
        if found != expected:
            yield f"invalid kernel flag: {name}, expected value: {expected}, actual value: {found}"


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
