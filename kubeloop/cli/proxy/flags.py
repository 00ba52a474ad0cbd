# SPDX-License-Identifier: Apache-2.0
"""Flags of `kubeloop proxy`: kube-proxy's names and defaults; reads the configuration file."""

from __future__ import annotations

import argparse
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.apiserver.decoding.yaml_decoder import read_yaml
from kubeloop.cli.flags.types import boolean, port
from kubeloop.cli.proxy.config_flags import LOG_FLAGS, add_config_flags, given_names, given_values
from kubeloop.proxy.config.configuration import HEALTHZ_PORT, METRICS_PORT, KubeProxyConfiguration
from kubeloop.proxy.config.decode import append_port_if_needed, configuration_of, decode_proxy_configuration
from kubeloop.proxy.config.validation import validate_proxy_configuration
from kubeloop.runtime.component_config import ComponentConfigError, plain_of

_ABOUT = """Run the service proxy of a node in nftables mode, with kube-proxy's flags and configuration."""
_EXAMPLES = """Examples:
  # On a node, with kube-proxy's credentials
  kubeloop proxy --kubeconfig kube-proxy.conf --cluster-cidr 10.244.0.0/16

  # With a KubeProxyConfiguration
  kubeloop proxy --config kube-proxy.yaml

  # Remove the tables
  kubeloop proxy --cleanup
"""
NO_EFFECT: Final = {
    "boot_id_file": "the machine's identity is not reported",
    "log_flush_frequency": "log lines are written at once",
    "log_json_info_buffer_size": "log lines are written at once",
    "log_json_split_stream": "logs go to standard error",
    "log_text_info_buffer_size": "log lines are written at once",
    "log_text_split_stream": "logs go to standard error",
    "machine_id_file": "the machine's identity is not reported",
    "vmodule": "it names Go files; use --v",
    "windows_service": "it is a flag for Windows",
}
_FIELDS_WITHOUT_EFFECT: Final = ("iptables", "ipvs", "winkernel", "enableProfiling", "showHiddenMetricsForVersion")


@dataclass(frozen=True, slots=True)
class ProxyOptions:
    """Configuration of a proxy process."""

    config: KubeProxyConfiguration
    node_name: str
    master: str = ""
    cleanup: bool = False
    init_only: bool = False
    write_config_to: Path | None = None
    warnings: tuple[str, ...] = ()
    config_file: Path | None = None


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add all flags."""
    parser.description, parser.epilog = _ABOUT, _EXAMPLES
    parser.add_argument("--config", type=Path, metavar="FILE", help="file with a KubeProxyConfiguration")
    parser.add_argument(
        "--write-config-to", type=Path, metavar="FILE", help="file to write the default configuration to; then exit"
    )
    parser.add_argument("--master", default="", metavar="URL", help="API server, in place of the kubeconfig's")
    parser.add_argument(
        "--hostname-override", default="", metavar="NAME", help="name of the Node (default: the host name)"
    )
    _add_switch(parser, "--cleanup", "delete the tables of the proxy and exit")
    _add_switch(parser, "--init-only", "make the settings that need all privileges and exit")
    for name, number, what in (("healthz", HEALTHZ_PORT, "health"), ("metrics", METRICS_PORT, "metrics")):
        about = f"deprecated: port of the {what}, 0 for none; use --{name}-bind-address (default: {number})"
        parser.add_argument(f"--{name}-port", type=port, default=number, metavar="PORT", help=about)
    for name, why in NO_EFFECT.items():
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            default=argparse.SUPPRESS,
            metavar="VALUE",
            nargs="?",
            help=f"no effect: {why}",
        )
    add_config_flags(parser)
    version = f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})"
    parser.add_argument("--version", action="version", version=version, help="print the version")


def proxy_options_of(options: argparse.Namespace) -> ProxyOptions:
    """Build the options of flags and file. Raises `ComponentConfigError`."""
    said = vars(options)
    warnings = [f"--{name.replace('_', '-')} has no effect: {why}" for name, why in NO_EFFECT.items() if name in said]
    if options.config is not None:
        config = _with_log_flags(_read(options.config), options)
        if ignored := given_names(options):
            warnings.append(f"flags without effect next to --config: {', '.join(ignored)}")
    else:
        config = configuration_of({}, _flag_values(options))
    if problems := validate_proxy_configuration(config):
        raise ComponentConfigError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    name = (options.hostname_override or config.hostname_override or socket.gethostname()).strip().lower()
    if not name:
        raise ComponentConfigError("empty hostname-override is invalid")
    warnings += _field_warnings(config)
    return ProxyOptions(
        config=config,
        node_name=name,
        master=options.master,
        cleanup=options.cleanup,
        init_only=options.init_only,
        write_config_to=options.write_config_to,
        warnings=tuple(warnings),
        config_file=options.config,
    )


def _flag_values(options: argparse.Namespace) -> dict[tuple[str, ...], object]:
    """Return the values of flags by field, with the deprecated ports in their addresses."""
    found = {**given_values(options), **given_values(options, LOG_FLAGS)}
    for field, number in (("healthzBindAddress", options.healthz_port), ("metricsBindAddress", options.metrics_port)):
        address = found.get((field,), "0.0.0.0" if field == "healthzBindAddress" else "127.0.0.1")
        if not number:
            found[field,] = ""
        elif (field,) in found or number not in (HEALTHZ_PORT, METRICS_PORT):
            found[field,] = append_port_if_needed(address, number)
    return found


def _with_log_flags(config: KubeProxyConfiguration, options: argparse.Namespace) -> KubeProxyConfiguration:
    """Return a file's configuration with the flags of the log, which have priority."""
    given = given_values(options, LOG_FLAGS)
    return configuration_of(plain_of(config), given) if given else config


def _field_warnings(config: KubeProxyConfiguration) -> list[str]:
    plain, defaults = plain_of(config), plain_of(KubeProxyConfiguration())
    changed = [name for name in _FIELDS_WITHOUT_EFFECT if plain[name] != defaults[name]]
    return [f"fields of the configuration without effect: {', '.join(changed)}"] if changed else []


def _read(path: Path) -> KubeProxyConfiguration:
    """Return the configuration of a file. Raises `ComponentConfigError`."""
    try:
        document, duplicates = read_yaml(path.read_bytes())
        if duplicates:
            raise ComponentConfigError(duplicates[0])
        return decode_proxy_configuration(document)
    except OSError as error:
        raise ComponentConfigError(f"--config {path}: {(error.strerror or str(error)).lower()}") from None
    except ValueError as error:
        raise ComponentConfigError(f"--config {path}: {error}") from None


def _add_switch(parser: argparse.ArgumentParser, name: str, about: str) -> None:
    parser.add_argument(name, type=boolean, nargs="?", const=True, default=False, metavar="BOOL", help=about)
