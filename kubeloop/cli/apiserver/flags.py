"""Flags of `kubeloop apiserver`: kube-apiserver's names and defaults where it has the flag.

A kube-apiserver flag that is not supported is rejected, never ignored.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.cli.apiserver.unsupported import ONLY_VALUE, UNSUPPORTED
from kubeloop.cli.flags.chaos import add_chaos_flag
from kubeloop.cli.flags.runtime_config import add_runtime_config_flags
from kubeloop.cli.flags.types import (
    address,
    address_types,
    authorization_modes,
    boolean,
    comma_separated,
    duration,
    networks,
    non_negative_count,
    port,
    port_range,
    positive_count,
)
from kubeloop.cli.up.flags import default_data_dir

_ABOUT = "Run the API server alone, with kube-apiserver's flags where they exist."


def add_command(commands: Any, *, with_flags: bool = True) -> None:
    """Add the `apiserver` command; its many flags are only added when it is used."""
    parser: argparse.ArgumentParser = commands.add_parser(
        "apiserver", help="run the API server alone", description=_ABOUT, allow_abbrev=False
    )
    if with_flags:
        _add_flags(parser)


def _add_flags(parser: argparse.ArgumentParser) -> None:
    _add_own_flags(parser)
    _add_serving_flags(parser)
    _add_identity_flags(parser)
    _add_aggregation_flags(parser)
    _add_audit_flags(parser)
    _add_request_flags(parser)
    _add_kubelet_flags(parser)
    add_runtime_config_flags(parser)
    add_chaos_flag(parser)
    for name in (*ONLY_VALUE, *UNSUPPORTED):
        parser.add_argument(f"--{name}", nargs="?", action=_UnsupportedFlag, help=argparse.SUPPRESS)
    version = f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})"
    parser.add_argument("--version", action="version", version=version, help="print the version")


def _add_own_flags(parser: argparse.ArgumentParser) -> None:
    folder = default_data_dir()
    store = f"sqlite:{folder / 'store.db'}"
    about = f"memory, sqlite:PATH, or etcd://HOST:PORT,... (default: {store})"
    parser.add_argument("--store", default=store, help=about)
    _add_etcd_flags(parser)
    parser.add_argument("--encryption-provider-config", type=Path, help="what lies in the store encrypted, and how")
    _add_switch(parser, "--encryption-provider-config-automatic-reload", False, "read that file again when it changes")
    parser.add_argument("--kubeconfig", type=Path, help="where to write an administrator's access data")
    parser.add_argument(
        "--cert-dir", type=Path, default=folder / "pki", help=f"keys and certificates (default: {folder / 'pki'})"
    )
    parser.add_argument("--v", type=non_negative_count, default=0, metavar="LEVEL", help="how much to log: 0, 2 or 4")


def _add_serving_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--secure-port", type=port, default=6443, help="port; 0 for a free one (default: 6443)")
    parser.add_argument("--bind-address", type=address, default="0.0.0.0", help="address (default: 0.0.0.0)")
    parser.add_argument("--advertise-address", type=address, help="the address that clients are told")
    parser.add_argument("--tls-cert-file", type=Path, help="serving certificate (default: one of our own CA)")
    parser.add_argument("--tls-private-key-file", type=Path, help="its key")
    parser.add_argument("--client-ca-file", type=Path, help="who may sign client certificates (default: our own CA)")
    parser.add_argument(
        "--service-cluster-ip-range",
        type=networks,
        default="10.0.0.0/24",
        help="service addresses (default: 10.0.0.0/24)",
    )
    parser.add_argument(
        "--service-node-port-range", type=port_range, default="30000-32767", help="node ports (default: 30000-32767)"
    )
    parser.add_argument(
        "--shutdown-delay-duration", type=duration, default=0.0, help="stay up, but not ready, for so long"
    )


def _add_identity_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--token-auth-file", type=Path, help="bearer tokens: token,user,uid[,groups]")
    _add_switch(parser, "--anonymous-auth", True, "let requests without credentials in as system:anonymous")
    _add_switch(parser, "--enable-bootstrap-token-auth", False, "let tokens in that lie in secrets of kube-system")
    # Upstream's default is AlwaysAllow.
    parser.add_argument(
        "--authorization-mode",
        type=authorization_modes,
        default="Node,RBAC",
        help="who decides: AlwaysAllow, AlwaysDeny, Node, RBAC, in order (default: Node,RBAC)",
    )
    parser.add_argument(
        "--service-account-issuer",
        action="append",
        default=[],
        help="in whose name tokens are signed; of several the first signs (default: https://kubernetes.default.svc)",
    )
    parser.add_argument(
        "--service-account-signing-key-file", type=Path, help="an RSA or ECDSA key (default: sa.key of --cert-dir)"
    )
    parser.add_argument(
        "--service-account-key-file",
        type=Path,
        action="append",
        default=[],
        help="further keys that tokens may have been signed with",
    )
    parser.add_argument("--service-account-jwks-uri", default="", help="where others are told to fetch our public key")
    parser.add_argument(
        "--api-audiences", type=comma_separated, default=(), help="whom tokens are for (default: the issuer)"
    )


def _add_aggregation_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--proxy-client-cert-file", type=Path, help="by which extension API servers know this one")
    parser.add_argument("--proxy-client-key-file", type=Path, help="its key")
    _add_switch(parser, "--enable-aggregator-routing", False, "reach extension API servers at their endpoints")
    parser.add_argument("--requestheader-client-ca-file", type=Path, help="who signs proxies that name users")
    for name, about in (
        ("allowed-names", "the names of those proxies; none given: any"),
        ("username-headers", "where they name the user (default: X-Remote-User)"),
        ("uid-headers", "where they give the user's uid (default: X-Remote-Uid)"),
        ("group-headers", "where they name the user's groups (default: X-Remote-Group)"),
        ("extra-headers-prefix", "what begins headers with more (default: X-Remote-Extra-)"),
    ):
        parser.add_argument(f"--requestheader-{name}", type=comma_separated, default=(), help=about)


def _add_etcd_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--etcd-servers", default="", metavar="URLS", help="etcd's members, instead of --store")
    parser.add_argument("--etcd-prefix", default="/registry", help="where in etcd our keys lie (default: /registry)")
    parser.add_argument("--etcd-cafile", default="", metavar="FILE", help="who signed the members' certificates")
    parser.add_argument("--etcd-certfile", default="", metavar="FILE", help="our certificate for them")
    parser.add_argument("--etcd-keyfile", default="", metavar="FILE", help="its key")


def _add_audit_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--audit-policy-file", type=Path, help="what is written down about requests")
    parser.add_argument("--audit-log-path", help="where: a file, or - for standard output")
    parser.add_argument("--audit-log-maxsize", type=non_negative_count, default=0, help="megabytes; 0: 100")
    parser.add_argument("--audit-log-maxbackup", type=non_negative_count, default=0, help="old files to keep; 0: all")
    parser.add_argument(
        "--audit-log-maxage", type=non_negative_count, default=0, help="days to keep old files; 0: for ever"
    )


def _add_request_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-requests-inflight", type=positive_count, default=400, help="reads at a time")
    parser.add_argument("--max-mutating-requests-inflight", type=positive_count, default=200, help="writes at a time")
    _add_switch(parser, "--enable-priority-and-fairness", True, "share both numbers out by FlowSchemas")
    parser.add_argument("--request-timeout", type=duration, default=60.0, help="for a request to arrive (default: 1m)")
    parser.add_argument("--event-ttl", type=duration, default=3600.0, help="how long events are kept (default: 1h)")
    parser.add_argument(
        "--etcd-compaction-interval",
        type=duration,
        default=300.0,
        help="how often history is cut; 0: never (default: 5m)",
    )


def _add_kubelet_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubelet-client-certificate", type=Path, help="by which kubelets know this server")
    parser.add_argument("--kubelet-client-key", type=Path, help="its key")
    parser.add_argument(
        "--kubelet-certificate-authority",
        type=Path,
        help="who signs kubelets' certificates (default: our own CA; else what their Nodes say of them)",
    )
    # kubeadm's order before kube-apiserver's, which begins with names that few networks know.
    preferred = "InternalIP,ExternalIP,Hostname,InternalDNS,ExternalDNS"
    parser.add_argument(
        "--kubelet-preferred-address-types",
        type=address_types,
        default=preferred,
        metavar="A,B",
        help=f"which addresses of nodes to use, in order (default: {preferred})",
    )
    parser.add_argument("--kubelet-timeout", type=duration, default=5.0, help="to be connected (default: 5s)")
    insecure = "believe whoever answers at a node's address, as kube-apiserver does without an authority"
    _add_switch(parser, "--kubelet-insecure-tls", False, insecure)
    _add_switch(parser, "--kubelet-metrics", False, "serve metrics.k8s.io from what kubelets tell of their usage")


def _add_switch(parser: argparse.ArgumentParser, name: str, default: bool, about: str) -> None:
    parser.add_argument(name, type=boolean, nargs="?", const=True, default=default, metavar="BOOL", help=about)


class _UnsupportedFlag(argparse.Action):
    """Accepts only the value that matches our behavior, and rejects every other."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        only = ONLY_VALUE.get((option_string or "").removeprefix("--"))
        if only is None:
            parser.error(f"{option_string} is a flag of kube-apiserver that kubeloop does not support yet")
        if (values if values is not None else "true") != only:
            parser.error(f"{option_string} can only be {only} in kubeloop, not {values}")
