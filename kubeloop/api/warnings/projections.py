# SPDX-License-Identifier: Apache-2.0
"""Warnings about overlapping file paths in a volume."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from kubeloop.api.generated.core_v1 import Volume, VolumeProjection
from kubeloop.api.meta.field_path import quote

# Number of files of a volume that are compared with each other.
_MAX_COMPARED: Final = 300


class _File(NamedTuple):
    path: str
    source: str = ""

    def __str__(self) -> str:
        return f"{quote(self.path)} ({self.source})" if self.source else quote(self.path)


def has_no_overlaps(sources: tuple[VolumeProjection, ...]) -> bool:
    """Return True if a quick check shows that projected files don't overlap, as those of a pod's own token."""
    paths = []
    for source in sources:
        if source.service_account_token is not None:
            paths.append(source.service_account_token.path)
        elif source.config_map is not None:
            paths += [item.path for item in source.config_map.items]
        elif source.downward_api is not None:
            paths += [item.path for item in source.downward_api.items]
        else:
            return False
    return len(set(paths)) == len(paths) and "/" not in "".join(paths)


def overlap_warnings(volume: Volume) -> Iterator[str]:
    """Yield warnings about overlapping files; only for volumes that list their items."""
    name = quote(volume.name)
    if volume.config_map is not None:
        files = [_File(item.path) for item in volume.config_map.items]
        yield from _told(f"volume {name} (ConfigMap {quote(volume.config_map.name)})", files)
    if volume.secret is not None:
        files = [_File(item.path) for item in volume.secret.items]
        yield from _told(f"volume {name} (Secret {quote(volume.secret.secret_name)})", files)
    if volume.downward_api is not None:
        files = [_File(item.path) for item in volume.downward_api.items]
        yield from _told(f"volume {name} (DownwardAPI)", files)
    if volume.projected is not None:
        sources = volume.projected.sources or ()
        for source in sources:
            if source == _NO_SOURCE:
                yield f"volume {name} (Projected) has no sources provided"
        yield from _told(f"volume {name} (Projected)", [file for source in sources for file in _projected(source)])


_NO_SOURCE = VolumeProjection()


def _projected(source: VolumeProjection) -> Iterator[_File]:
    if source.config_map is not None:
        for item in source.config_map.items:
            yield _File(item.path, f"ConfigMap {quote(source.config_map.name)}")
    elif source.secret is not None:
        for item in source.secret.items:
            yield _File(item.path, f"Secret {quote(source.secret.name)}")
    elif source.downward_api is not None:
        for file in source.downward_api.items:
            yield _File(file.path, "DownwardAPI")
    elif source.service_account_token is not None:
        yield _File(source.service_account_token.path, "ServiceAccountToken")
    elif source.cluster_trust_bundle is not None:
        bundle = source.cluster_trust_bundle
        name = bundle.name if bundle.name is not None else bundle.signer_name
        yield _File(bundle.path, f"ClusterTrustBundle {quote(name or '')}")
    elif source.pod_certificate is not None:
        certificate = source.pod_certificate
        yield _File(certificate.certificate_chain_path, "PodCertificate chain")
        yield _File(certificate.key_path, "PodCertificate key")
        yield _File(certificate.credential_bundle_path, "PodCertificate credential bundle")


def _told(volume: str, files: Iterable[_File]) -> Iterator[str]:
    seen: list[_File] = []
    for path, source in islice(files, _MAX_COMPARED):
        file = _File(path.rstrip("/"), source)
        if file.path:
            for other in seen:
                if (other.path + "/").startswith(file.path + "/") or (file.path + "/").startswith(other.path + "/"):
                    yield f"{volume}: overlapping paths: {file} with {other}"
            seen.append(file)
