# SPDX-License-Identifier: Apache-2.0
"""Flags of `kubeloop dns`, with the defaults of kubeadm's Corefile."""

from __future__ import annotations

import argparse
import ipaddress
from pathlib import Path

from kubeloop.cli.flags.types import address, duration, non_negative_count, port
from kubeloop.cli.program.logs import add_log_flags
from kubeloop.dns.cluster_dns import ClusterDnsSettings
from kubeloop.dns.forward.addresses import SocketAddress, UpstreamError, parse_upstream, read_resolv_conf
from kubeloop.dns.forward.answer_cache import DEFAULT_TTL
from kubeloop.dns.forward.forwarder import ForwardSettings
from kubeloop.dns.wire.names import DnsFormatError, encode_name
from kubeloop.dns.zone.settings import ZoneSettings

_ABOUT = """Serve the cluster's DNS: records of Services and pods, as CoreDNS does. Other names are forwarded."""
_EXAMPLES = """Examples:
  # On the port 53, with the upstream resolvers of /etc/resolv.conf
  kubeloop dns --kubeconfig admin.conf

  # On a free port of this machine, without upstream resolvers
  kubeloop dns --kubeconfig admin.conf --bind-address 127.0.0.1 --port 5353 --resolv-conf ''

  # With two upstream resolvers, and a line in the log for every query
  kubeloop dns --kubeconfig admin.conf --upstream 192.0.2.1 --upstream 192.0.2.2:5353 --log-queries
"""
_MAX_TTL = 3600  # CoreDNS's


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add all flags."""
    parser.description, parser.epilog = _ABOUT, _EXAMPLES
    parser.add_argument(
        "--kubeconfig", default="", help="kubeconfig with the API server and the credentials (default: as kubectl)"
    )
    _add_zone_flags(parser)
    _add_forward_flags(parser)
    _add_port_flags(parser)
    parser.add_argument("--log-queries", action="store_true", help="write a line to the log for every query")
    add_log_flags(parser)


def _add_zone_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cluster-domain",
        type=_domain,
        default=encode_name("cluster.local"),
        metavar="DOMAIN",
        help="domain of the cluster's records (default: cluster.local)",
    )
    parser.add_argument(
        "--pods",
        choices=("disabled", "insecure", "verified"),
        default="insecure",
        help="records of pods: none, for every address, or for existing pods, which are watched (default: insecure)",
    )
    parser.add_argument(
        "--ttl", type=_ttl, default=30, metavar="SECONDS", help="TTL of the cluster's records (default: 30)"
    )


def _add_forward_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--upstream",
        action="append",
        default=[],
        type=_upstream,
        dest="upstreams",
        metavar="IP[:PORT]",
        help="upstream resolver of other names (repeat the flag for each); replaces those of --resolv-conf",
    )
    parser.add_argument(
        "--resolv-conf",
        default="/etc/resolv.conf",
        metavar="FILE",
        help="file with upstream resolvers; '' for none: other names are refused (default: /etc/resolv.conf)",
    )
    parser.add_argument(
        "--cache-ttl",
        type=_ttl,
        default=DEFAULT_TTL,
        metavar="SECONDS",
        help=f"maximum time in the cache of forwarded answers; 0 for no cache (default: {DEFAULT_TTL})",
    )
    parser.add_argument(
        "--max-concurrent",
        type=non_negative_count,
        default=ForwardSettings().max_concurrent,
        metavar="COUNT",
        help="maximum number of forwarded queries under way; further ones are refused (default: 1000)",
    )


def _add_port_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--bind-address",
        action="append",
        default=[],
        type=address,
        dest="bind_addresses",
        metavar="IP",
        help="IP address to listen on (repeat the flag for each; default: 0.0.0.0)",
    )
    parser.add_argument(
        "--allow-from",
        action="append",
        default=[],
        type=_network,
        metavar="CIDR",
        help="network of clients that are answered (repeat the flag for each); others are refused (default: all)",
    )
    parser.add_argument("--port", type=port, default=53, help="UDP and TCP port; 0 for any free one (default: 53)")
    for name, default, about in (
        ("health", 8080, "/health"),
        ("ready", 8181, "/ready"),
        ("metrics", 9153, "/metrics"),
    ):
        parser.add_argument(
            f"--{name}-port", type=port, default=default, help=f"HTTP port of {about}; 0 for none (default: {default})"
        )
    parser.add_argument(
        "--lameduck",
        type=duration,
        default=5.0,
        metavar="DURATION",
        help="time for which the server answers after a signal, while /health fails (default: 5s)",
    )


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def settings_of(options: argparse.Namespace) -> ClusterDnsSettings:
    """Build the settings. Raises `UpstreamError` if resolv.conf cannot be read."""
    return ClusterDnsSettings(
        zone=ZoneSettings(domain=options.cluster_domain, ttl=options.ttl, pods=options.pods),
        bind_addresses=tuple(options.bind_addresses) or ("0.0.0.0",),
        port=options.port,
        upstreams=tuple(options.upstreams) or _resolv_conf(options.resolv_conf),
        cache_ttl=options.cache_ttl,
        forward=ForwardSettings(max_concurrent=options.max_concurrent),
        is_logging=options.log_queries,
        clients=tuple(options.allow_from),
    )


def _resolv_conf(path: str) -> tuple[SocketAddress, ...]:
    if not path:
        return ()
    try:
        return tuple(read_resolv_conf(Path(path).read_text()))
    except (OSError, UnicodeDecodeError) as error:
        raise UpstreamError(f"--resolv-conf {path}: {error}") from None


def _domain(text: str) -> bytes:
    try:
        domain = encode_name(text.lower())
    except DnsFormatError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if len(domain) == 1:
        raise argparse.ArgumentTypeError("the cluster cannot have the root as its domain")
    return domain


def _upstream(text: str) -> SocketAddress:
    try:
        return parse_upstream(text)
    except UpstreamError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _ttl(text: str) -> int:
    if not text.isdecimal() or int(text) > _MAX_TTL:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds between 0 and {_MAX_TTL}")
    return int(text)
