# SPDX-License-Identifier: Apache-2.0
"""Flags of `kubeloop apiserver`: kube-apiserver's names and defaults where it has the flag.

A kube-apiserver flag that is not supported is rejected, never ignored.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubeloop.cli.apiserver.access_flags import add_authentication_flags, add_authorization_flags
from kubeloop.cli.apiserver.audit import add_audit_flags
from kubeloop.cli.apiserver.run_flags import add_run_flags, add_switch, add_tls_flags, add_version_flag
from kubeloop.cli.apiserver.unsupported_flags import NO_EFFECT, ONLY_VALUE, UNSUPPORTED, reason_of
from kubeloop.cli.flags.chaos import add_chaos_flag
from kubeloop.cli.flags.runtime_config import add_runtime_config_flags
from kubeloop.cli.flags.types import (
    address,
    address_types,
    comma_separated,
    duration,
    networks,
    port,
    port_range,
    positive_count,
)
from kubeloop.cli.local_clusters.registry import DEFAULT_NAME, ClusterRegistry
from kubeloop.cli.program.logs import add_log_flags
from kubeloop.cli.up.flags import LOCAL_ADDRESSES

_ABOUT = "Run only the API server, with kube-apiserver's flags where they exist."
_EXAMPLES = """Examples:
  # With all state in memory, on a free port
  kubeloop apiserver --store memory --secure-port 0 --kubeconfig admin.conf

  # With etcd, as kube-apiserver
  kubeloop apiserver --etcd-servers http://127.0.0.1:2379 --bind-address 127.0.0.1 --kubeconfig admin.conf
"""


def add_shared_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of an API server that `kubeloop up` has, too."""
    _add_encryption_flags(parser)
    _add_identity_flags(parser)
    add_audit_flags(parser)
    _add_admission_flags(parser)
    _add_request_flags(parser)
    add_tls_flags(parser)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `kubeloop apiserver`."""
    parser.description, parser.epilog = _ABOUT, _EXAMPLES
    _add_own_flags(parser)
    _add_serving_flags(parser)
    add_shared_flags(parser)
    _add_aggregation_flags(parser)
    _add_kubelet_flags(parser)
    add_runtime_config_flags(parser)
    add_chaos_flag(parser)
    add_run_flags(parser, allow_privileged=False)
    add_log_flags(parser)
    for name in (*ONLY_VALUE, *NO_EFFECT, *UNSUPPORTED):
        parser.add_argument(
            f"--{name}", nargs="?", dest="without_effect", action=_UnsupportedFlag, help=argparse.SUPPRESS
        )
    add_version_flag(parser)


def _add_own_flags(parser: argparse.ArgumentParser) -> None:
    folder = ClusterRegistry().data_dir(DEFAULT_NAME)
    store = f"sqlite:{folder / 'store.db'}"
    about = f"store: memory, sqlite:PATH, or etcd://HOST:PORT,... (default: {store})"
    parser.add_argument("--store", default=store, help=about)
    _add_etcd_flags(parser)
    parser.add_argument("--kubeconfig", type=Path, help="file to write an administrator's kubeconfig to")
    parser.add_argument(
        "--cert-dir",
        type=Path,
        default=folder / "pki",
        help=f"folder of keys and certificates (default: {folder / 'pki'})",
    )


def _add_encryption_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--encryption-provider-config", type=Path, help="file with the configuration of encryption at rest"
    )
    add_switch(
        parser,
        "--encryption-provider-config-automatic-reload",
        False,
        "reload the encryption configuration when its file changes",
    )


def _add_serving_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--secure-port", type=port, default=6443, help="HTTPS port; 0 for any free port (default: 6443)"
    )
    parser.add_argument(
        "--bind-address", type=address, default="0.0.0.0", help="IP address to listen on (default: 0.0.0.0)"
    )
    parser.add_argument("--advertise-address", type=address, help="IP address to advertise to members of the cluster")
    parser.add_argument(
        "--tls-cert-file", type=Path, help="serving certificate (default: issued by the CA in --cert-dir)"
    )
    parser.add_argument("--tls-private-key-file", type=Path, help="private key of the certificate")
    parser.add_argument(
        "--client-ca-file", type=Path, help="CA bundle for client certificates (default: the CA in --cert-dir)"
    )
    parser.add_argument(
        "--service-cluster-ip-range",
        type=networks,
        default="10.0.0.0/24",
        help="CIDR of cluster IPs (default: 10.0.0.0/24)",
    )
    parser.add_argument(
        "--service-node-port-range",
        type=port_range,
        default="30000-32767",
        help="range of node ports (default: 30000-32767)",
    )
    parser.add_argument(
        "--shutdown-delay-duration",
        type=duration,
        default=0.0,
        help="time to keep serving, but not ready, before shutting down",
    )


def _add_identity_flags(parser: argparse.ArgumentParser) -> None:
    add_authentication_flags(parser)
    add_authorization_flags(parser)
    parser.add_argument(
        "--service-account-issuer",
        action="append",
        default=[],
        help="issuer of service account tokens; if repeated, the first one is used for new tokens (default: "
        "https://kubernetes.default.svc)",
    )
    parser.add_argument(
        "--service-account-signing-key-file",
        type=Path,
        help="RSA or ECDSA key that signs tokens (default: sa.key in --cert-dir)",
    )
    parser.add_argument(
        "--service-account-key-file",
        type=Path,
        action="append",
        default=[],
        help="additional keys that verify tokens (may be repeated)",
    )
    parser.add_argument(
        "--service-account-jwks-uri", default="", help="URL of the JSON web key set in the discovery document"
    )


def _add_aggregation_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--proxy-client-cert-file", type=Path, help="client certificate for requests to extension API servers"
    )
    parser.add_argument("--proxy-client-key-file", type=Path, help="private key of the certificate")
    add_switch(
        parser,
        "--enable-aggregator-routing",
        False,
        "send aggregated requests to endpoint IPs rather than to cluster IPs",
    )
    parser.add_argument(
        "--requestheader-client-ca-file",
        type=Path,
        help="CA bundle for the client certificates of authenticating proxies",
    )
    for name, about in (
        ("allowed-names", "common names accepted from authenticating proxies (default: any)"),
        ("username-headers", "headers with the user name (default: X-Remote-User)"),
        ("uid-headers", "headers with the user's UID (default: X-Remote-Uid)"),
        ("group-headers", "headers with the user's groups (default: X-Remote-Group)"),
        ("extra-headers-prefix", "prefixes of headers with extra user data (default: X-Remote-Extra-)"),
    ):
        parser.add_argument(f"--requestheader-{name}", type=comma_separated, default=(), help=about)


def _add_etcd_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--etcd-servers", default="", metavar="URLS", help="URLs of etcd servers; replaces --store")
    parser.add_argument("--etcd-prefix", default="/registry", help="prefix of all keys in etcd (default: /registry)")
    parser.add_argument("--etcd-cafile", default="", metavar="FILE", help="CA bundle for etcd's server certificates")
    parser.add_argument("--etcd-certfile", default="", metavar="FILE", help="client certificate for etcd")
    parser.add_argument("--etcd-keyfile", default="", metavar="FILE", help="private key of the certificate")


def _add_admission_flags(parser: argparse.ArgumentParser) -> None:
    from kubeloop.apiserver.admission.plugin_names import DEFAULT_PLUGINS, ORDERED_PLUGINS

    defaults = ", ".join(name for name in ORDERED_PLUGINS if name in DEFAULT_PLUGINS)
    every = ", ".join(sorted(ORDERED_PLUGINS))
    parser.add_argument(
        "--enable-admission-plugins",
        type=comma_separated,
        action="extend",
        default=[],
        metavar="NAMES",
        help=f"admission plugins to enable besides the default ones ({defaults}); known are: {every}",
    )
    parser.add_argument(
        "--disable-admission-plugins",
        type=comma_separated,
        action="extend",
        default=[],
        metavar="NAMES",
        help="admission plugins to disable although they are enabled by default",
    )
    parser.add_argument(
        "--admission-control",
        type=comma_separated,
        action="extend",
        default=[],
        metavar="NAMES",
        help="all admission plugins to enable (deprecated: use --enable-admission-plugins)",
    )
    parser.add_argument(
        "--admission-control-config-file", type=Path, metavar="FILE", help="configuration of admission plugins"
    )


def _add_request_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-requests-inflight", type=positive_count, default=400, help="maximum number of concurrent read requests"
    )
    parser.add_argument(
        "--max-mutating-requests-inflight",
        type=positive_count,
        default=200,
        help="maximum number of concurrent write requests",
    )
    add_switch(
        parser, "--enable-priority-and-fairness", True, "distribute the concurrency limits by API Priority and Fairness"
    )
    parser.add_argument(
        "--request-timeout",
        type=duration,
        default=60.0,
        help="timeout of receiving and of handling a request that is not long-running (default: 1m)",
    )
    parser.add_argument("--event-ttl", type=duration, default=3600.0, help="time to keep events (default: 1h)")
    parser.add_argument(
        "--etcd-compaction-interval",
        type=duration,
        default=300.0,
        help="interval of compaction; 0 for never (default: 5m)",
    )


def _add_kubelet_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubelet-client-certificate", type=Path, help="client certificate for requests to kubelets")
    parser.add_argument("--kubelet-client-key", type=Path, help="private key of the certificate")
    parser.add_argument(
        "--kubelet-certificate-authority",
        type=Path,
        help="CA bundle for kubelets' serving certificates (default: the CA in --cert-dir, or the certificate "
        "recorded in the Node)",
    )
    # kubeadm's order instead of kube-apiserver's, which starts with names that few networks resolve.
    preferred = "InternalIP,ExternalIP,Hostname,InternalDNS,ExternalDNS"
    parser.add_argument(
        "--kubelet-preferred-address-types",
        type=address_types,
        default=preferred,
        metavar="A,B",
        help=f"node address types in order of preference (default: {preferred})",
    )
    parser.add_argument(
        "--kubelet-timeout", type=duration, default=5.0, help="timeout of connecting to a kubelet (default: 5s)"
    )
    insecure = "skip verification of kubelets' serving certificates, as kube-apiserver does without an authority"
    add_switch(parser, "--kubelet-insecure-tls", False, insecure)
    add_switch(parser, "--kubelet-allow-local-addresses", False, LOCAL_ADDRESSES)
    add_switch(parser, "--kubelet-metrics", False, "serve metrics.k8s.io from the kubelets' resource metrics")


class _UnsupportedFlag(argparse.Action):
    """Accepts the values that match our behavior, notes flags without effect, and rejects the rest."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        name, value = (option_string or "").removeprefix("--"), "true" if values is None else values
        if name in UNSUPPORTED:
            parser.error(f"{option_string} is a flag of kube-apiserver that is not supported: {reason_of(name)}")
        if name in NO_EFFECT:
            namespace.without_effect = [*(namespace.without_effect or ()), option_string]
            return
        values_of_ours, reason = ONLY_VALUE[name]
        if value not in values_of_ours:
            only = " or ".join(one or "empty" for one in values_of_ours)
            parser.error(f"{option_string} can only be {only} in kubeloop, not {value}: {reason}")
