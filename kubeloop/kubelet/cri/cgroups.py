# SPDX-License-Identifier: Apache-2.0
"""Control groups of pods below `kubepods`, by quality of service, as the cgroupfs driver names them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from kubeloop.api.generated.core_v1 import Pod
from kubeloop.api.strategy.pods.qos import qos_class_of

_ROOT = Path("/sys/fs/cgroup")
_CLASSES = {"Guaranteed": "", "Burstable": "/burstable", "BestEffort": "/besteffort"}


def pod_cgroup(pod: Pod, root: str = "/") -> str:
    """Return the control group of a pod below a root (`--cgroup-root`)."""
    qos = pod.status.qos_class or qos_class_of(pod.spec)
    return f"{root.rstrip('/')}/kubepods{_CLASSES[qos]}/pod{pod.metadata.uid}"


def remove_pod_cgroups(uid: str, root: str = "/") -> None:
    """Remove the empty control groups of a pod from every hierarchy, versions 1 and 2."""
    is_unified = (_ROOT / "cgroup.controllers").exists()
    for hierarchy in (_ROOT,) if is_unified else tuple(_ROOT.iterdir()):
        for qos in _CLASSES.values():
            folder = hierarchy / f"{root.strip('/')}/kubepods{qos}/pod{uid}".lstrip("/")
            for path, _, _ in os.walk(folder, topdown=False):
                with suppress(OSError):
                    os.rmdir(path)
