# SPDX-License-Identifier: Apache-2.0
"""Flags of request handling and TLS that `kubeloop apiserver` and `kubeloop up` share, and their values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kubeloop import KUBERNETES_VERSION, __version__
from kubeloop.cli.flags.types import boolean, comma_separated, duration, non_negative_count, port

if TYPE_CHECKING:  # flags are read before anything else is loaded
    from kubeloop.apiserver.request.run_options import ServerRunOptions
    from kubeloop.http.tls import TlsOptions

_HOUR: Final = 3600
_LONGEST_EXPIRATION: Final = 2**32
_RECONCILERS: Final = ("lease", "none")
_IDENTIFIERS: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_REPORTED_VERSION: Final = re.compile(rf"v{re.escape(KUBERNETES_VERSION)}(?:-{_IDENTIFIERS})?(?:\+{_IDENTIFIERS})?")


def add_switch(parser: argparse.ArgumentParser, name: str, default: bool, about: str) -> None:
    """Add a boolean flag in the spellings of Go's flags."""
    parser.add_argument(name, type=boolean, nargs="?", const=True, default=default, metavar="BOOL", help=about)


def add_tls_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of TLS."""
    parser.add_argument(
        "--tls-min-version", default="", metavar="VERSION", help="VersionTLS12 or VersionTLS13 (default: VersionTLS12)"
    )
    parser.add_argument(
        "--tls-cipher-suites",
        type=comma_separated,
        default=(),
        metavar="A,B",
        help="cipher suites of TLS 1.2, by Go's names (default: those of OpenSSL)",
    )
    parser.add_argument(
        "--tls-curve-preferences",
        type=comma_separated,
        default=(),
        metavar="N",
        help="number of the only curve of key exchanges (default: those of OpenSSL)",
    )
    parser.add_argument(
        "--tls-sni-cert-key",
        action="append",
        default=[],
        metavar="CERT,KEY[:NAME,...]",
        help="certificate for server names; may be repeated",
    )
    add_switch(parser, "--permit-port-sharing", False, "share the port with other servers (SO_REUSEPORT)")


def add_run_flags(parser: argparse.ArgumentParser, *, allow_privileged: bool) -> None:
    """Add the flags of request handling."""
    add_switch(parser, "--allow-privileged", allow_privileged, "allow privileged containers")
    parser.add_argument(
        "--min-request-timeout",
        type=non_negative_count,
        default=1800,
        metavar="SECONDS",
        help="shortest time after which a watch without a timeout ends (default: 1800)",
    )
    parser.add_argument(
        "--goaway-chance",
        type=_goaway_chance,
        default=0.0,
        metavar="X",
        help="chance of closing an HTTP/2 connection; without HTTP/2 it has no effect",
    )
    parser.add_argument(
        "--livez-grace-period",
        type=duration,
        default=0.0,
        help="time in which /livez ignores unfinished post-start hooks",
    )
    _add_browser_flags(parser)
    _add_token_flags(parser)
    _add_object_flags(parser)


def _add_browser_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of headers and URLs that browsers depend on."""
    parser.add_argument(
        "--cors-allowed-origins",
        type=comma_separated,
        default=(),
        metavar="REGEX,...",
        help="origins whose browsers may send requests",
    )
    parser.add_argument(
        "--strict-transport-security-directives",
        type=comma_separated,
        default=(),
        metavar="A,B",
        help="content of the header Strict-Transport-Security",
    )
    parser.add_argument("--external-hostname", default="", metavar="NAME", help="host in URLs that the server returns")


def _add_token_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--service-account-max-token-expiration",
        type=duration,
        default=0.0,
        help="longest validity of a service account token (default: unlimited)",
    )
    add_switch(
        parser,
        "--service-account-extend-token-expiration",
        True,
        "make tokens that are injected into pods valid for a year",
    )


def _add_object_flags(parser: argparse.ArgumentParser) -> None:
    """Add flags of objects that the server writes, or changes."""
    for taint in ("not-ready", "unreachable"):
        parser.add_argument(
            f"--default-{taint}-toleration-seconds",
            type=int,
            default=300,
            metavar="SECONDS",
            help=f"how long pods tolerate the taint {taint} by default (default: 300)",
        )
    parser.add_argument(
        "--endpoint-reconciler-type",
        choices=_RECONCILERS,
        default="lease",
        help="reconciler of the endpoints of the Service kubernetes (default: lease)",
    )
    parser.add_argument(
        "--kubernetes-service-node-port", type=port, default=0, help="node port of the Service kubernetes; 0: none"
    )


def _goaway_chance(text: str) -> float:
    try:
        chance = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= chance <= 0.02:
        raise argparse.ArgumentTypeError("can not be less than 0 or greater than 0.02")
    return chance


def tls_options_of(options: argparse.Namespace) -> TlsOptions:
    """Return the TLS settings of the flags; raises StartupError."""
    from kubeloop.apiserver.server import StartupError
    from kubeloop.cli.flags.tls import tls_options
    from kubeloop.http.tls import TlsOptionError

    try:
        return tls_options(
            options.tls_min_version, options.tls_cipher_suites, options.tls_curve_preferences, options.tls_sni_cert_key
        )
    except TlsOptionError as error:
        raise StartupError(str(error)) from None


def run_options_of(options: argparse.Namespace) -> ServerRunOptions:
    """Return the settings of request handling; raises StartupError."""
    from kubeloop.apiserver.request.run_options import ServerRunOptions
    from kubeloop.apiserver.server import StartupError

    longest = int(options.service_account_max_token_expiration)
    if longest and not _HOUR <= longest <= _LONGEST_EXPIRATION:
        raise StartupError("the service-account-max-token-expiration must be between 1 hour and 2^32 seconds")
    _check_filters(options)
    return ServerRunOptions(
        options.allow_privileged,
        options.min_request_timeout,
        options.request_timeout,
        options.cors_allowed_origins,
        options.strict_transport_security_directives,
        longest,
        options.service_account_extend_token_expiration,
        options.default_not_ready_toleration_seconds,
        options.default_unreachable_toleration_seconds,
        options.version,
    )


def _check_filters(options: argparse.Namespace) -> None:
    if not options.cors_allowed_origins and not options.strict_transport_security_directives:
        return
    from kubeloop.apiserver.request.filters import FilterOptionError, check_cors_origins, check_hsts_directives
    from kubeloop.apiserver.server import StartupError

    try:
        check_cors_origins(options.cors_allowed_origins)
        check_hsts_directives(options.strict_transport_security_directives)
    except FilterOptionError as error:
        raise StartupError(str(error)) from None


def add_version_flag(parser: argparse.ArgumentParser) -> None:
    """Add --version, which prints the version, and --version=vX.Y.Z-SUFFIX, which sets the reported one."""
    parser.add_argument(
        "--version",
        action=_VersionFlag,
        nargs="?",
        const="true",
        default=f"v{KUBERNETES_VERSION}",
        metavar="VERSION",
        help=f"print the version and exit; v{KUBERNETES_VERSION} with a suffix sets the version that /version reports",
    )


class _VersionFlag(argparse.Action):
    """Prints the version and exits, unless the value is a version to report."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        value = str(values)
        if value.startswith("v"):
            if not _REPORTED_VERSION.fullmatch(value):
                parser.error(f"version {value!r} must match major/minor/patch of v{KUBERNETES_VERSION}")
            namespace.version = value
        elif value == "raw" or boolean(value):
            print(f"kubeloop {__version__} (Kubernetes {KUBERNETES_VERSION})")
            parser.exit()
