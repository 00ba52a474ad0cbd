"""Flags for served API versions and feature gates."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # flags are read before anything else is loaded
    from kubeloop.api.features.resource_config import APIResourceConfig

log = logging.getLogger(__name__)

# Features that change what we do; the others are known, and can be said, and change nothing.
_FOLLOWED = frozenset(
    """
    AtomicWriteVolumeUserFields CSIVolumeHealth ClusterTrustBundle CompositePodGroup ContainerStopSignals
    DRADerivedAttributes DRADeviceCompatibilityGroups DRAListTypeAttributes DRANodeAllocatableResources
    DRAOptionalNodeOperations DRAPartitionableDevicesType DRAResourcePoolStatus DRAWorkloadResourceClaims
    EmptyDirVolumeMode EvictionRequestAPI GRPCContainerProbeTLS GenericWorkload H2CContainerProbe
    HPAScaleToZero ImageVolumeWithDigest PersistentVolumeClaimUnusedSinceTime PodCertificateRequest
    PodGroupPreemptionPolicy StorageVersionAPI StorageVersionMigrator TopologyAwareWorkloadScheduling
    VolumeBindMountOptions WorkloadWithJob
    """.split()  # noqa: SIM905 - a list of quoted names would be harder to read
)


def add_runtime_config_flags(parser: argparse.ArgumentParser) -> None:
    """Add --runtime-config and --feature-gates."""
    parser.add_argument(
        "--runtime-config",
        action="append",
        default=[],
        metavar="KEY=BOOL,...",
        help="versions to serve or not: api/all, api/ga, api/beta, api/alpha, GROUP/VERSION, GROUP/VERSION/RESOURCE",
    )
    parser.add_argument(
        "--feature-gates", action="append", default=[], metavar="NAME=BOOL,...", help="features to turn on or off"
    )


def resource_config_of(options: argparse.Namespace) -> APIResourceConfig:
    """Build the resource configuration from the flags; raises CannotStart."""
    from kubeloop.api.features.gates import DEFAULT_FEATURES, InvalidFeatureGate
    from kubeloop.api.features.resource_config import InvalidRuntimeConfig, parse_resource_config
    from kubeloop.apiserver.server import StartupError

    try:
        serving = parse_resource_config(options.runtime_config, options.feature_gates)
    except (InvalidRuntimeConfig, InvalidFeatureGate) as error:
        raise StartupError(str(error)) from None
    idle = sorted((serving.features.on ^ DEFAULT_FEATURES.on) - _FOLLOWED)
    if idle:
        log.warning("feature gates that change nothing in kubeloop: %s", ", ".join(idle))
    return serving


def gates_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Return one string per feature gate, as the controller manager takes them."""
    return tuple(word for text in options.feature_gates for word in text.split(",") if word)
