# SPDX-License-Identifier: Apache-2.0
"""Symbolic links to the logs of containers in one folder (`/var/log/containers`), for log collectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from kubeloop.kubelet.cri.config.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE

_SUFFIX = ".log"
_LONGEST_NAME = 255


class ContainerLogLinks:
    """Links of one node, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, id: str, labels: Mapping[str, str], log: Path) -> None:
        """Create the link of a container to its log, if that exists."""
        if not log.exists():
            return
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        link = self._path(id, labels)
        link.unlink(missing_ok=True)
        link.symlink_to(log)

    def remove(self, id: str, labels: Mapping[str, str]) -> None:
        """Remove the link of a container."""
        self._path(id, labels).unlink(missing_ok=True)

    def dangling(self) -> Iterator[tuple[Path, str]]:
        """Yield the links whose logs are gone, with the IDs of their containers."""
        for link in sorted(self._folder.glob(f"*{_SUFFIX}")):
            if not link.exists():
                yield link, link.name.removesuffix(_SUFFIX).rpartition("-")[2]

    def _path(self, id: str, labels: Mapping[str, str]) -> Path:
        pod, namespace, name = (labels.get(key, "") for key in (POD_NAME, POD_NAMESPACE, CONTAINER_NAME))
        return self._folder / (f"{pod}_{namespace}_{name}-{id}"[: _LONGEST_NAME - len(_SUFFIX)] + _SUFFIX)
