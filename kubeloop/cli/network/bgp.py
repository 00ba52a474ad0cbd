# SPDX-License-Identifier: Apache-2.0
"""Backend bgp of `kubeloop network` from flags and the file of --bgp-config."""

from __future__ import annotations

import argparse
from pathlib import Path

import yaml

from kubeloop.metrics import MetricRegistry
from kubeloop.network.bgp.backend import BgpBackend
from kubeloop.network.bgp.bird import Bird
from kubeloop.network.bgp.bird_config import BgpSettings
from kubeloop.network.bgp.peers import BgpConfig, BgpConfigError, parse_bgp_config


def bgp_backend(options: argparse.Namespace, registry: MetricRegistry) -> BgpBackend:
    """Build the backend, with its metrics. Raises ValueError."""
    config = _read(options.bgp_config) if options.bgp_config is not None else BgpConfig()
    settings = BgpSettings(options.bgp_as, config.peers, options.bgp_advertise)
    folder: Path = options.run_dir
    backend = BgpBackend(settings, Bird(folder, options.bird, options.birdc), folder)
    about = "BGP sessions with other nodes, by state."
    sessions = registry.gauge("kubeloop_network_bgp_sessions", "state", about=about)
    sessions.set_function(lambda: float(backend.expected), "expected")
    sessions.set_function(lambda: float(backend.established), "established")
    return backend


def _read(path: Path) -> BgpConfig:
    try:
        return parse_bgp_config(yaml.safe_load(path.read_text()))
    except (OSError, yaml.YAMLError, BgpConfigError) as error:
        raise ValueError(f"--bgp-config {path}: {error}") from None
