# SPDX-License-Identifier: Apache-2.0
"""Flags for served API versions and feature gates."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # flags are read before anything else is loaded
    from kubeloop.api.features.resource_config import APIResourceConfig

log = logging.getLogger(__name__)


def add_runtime_config_flags(parser: argparse.ArgumentParser) -> None:
    """Add --runtime-config and --feature-gates."""
    parser.add_argument(
        "--runtime-config",
        action="append",
        default=[],
        metavar="KEY=BOOL,...",
        help="API versions to enable or disable: api/all, api/ga, api/beta, api/alpha, GROUP/VERSION, "
        "GROUP/VERSION/RESOURCE",
    )
    parser.add_argument(
        "--feature-gates",
        action="append",
        default=[],
        metavar="NAME=BOOL,...",
        help="feature gates to enable or disable",
    )


def resource_config_of(options: argparse.Namespace, *components: str) -> APIResourceConfig:
    """Build the resource configuration from the flags, for a program that runs components; raises StartupError."""
    from kubeloop.api.features.effects import ineffective_gates
    from kubeloop.api.features.gates import InvalidFeatureGate
    from kubeloop.api.features.resource_config import InvalidRuntimeConfig, parse_resource_config
    from kubeloop.apiserver.server import StartupError

    try:
        serving = parse_resource_config(options.runtime_config, options.feature_gates)
    except (InvalidRuntimeConfig, InvalidFeatureGate) as error:
        raise StartupError(str(error)) from None
    for text in ineffective_gates(serving.features, *components):
        log.warning("%s", text)
    return serving


def warn_ineffective_gates(gates: Iterable[str], component: str) -> None:
    """Log a warning for each feature gate without effect in a component; raises StartupError for an invalid one."""
    from kubeloop.api.features.effects import ineffective_gates
    from kubeloop.api.features.gates import InvalidFeatureGate, parse_feature_gates
    from kubeloop.apiserver.server import StartupError

    try:
        features = parse_feature_gates(gates)
    except InvalidFeatureGate as error:
        raise StartupError(str(error)) from None
    for text in ineffective_gates(features, component):
        log.warning("%s", text)


def gates_of(options: argparse.Namespace) -> tuple[str, ...]:
    """Return one string per feature gate, as the controller manager takes them."""
    return tuple(word for text in options.feature_gates for word in text.split(",") if word)
