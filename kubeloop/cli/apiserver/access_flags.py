# SPDX-License-Identifier: Apache-2.0
"""Authentication and authorization flags of `kubeloop apiserver`."""

from __future__ import annotations

import argparse
from pathlib import Path

from kubeloop.cli.flags.types import authorization_modes, boolean, comma_separated, duration, key_value


def add_authentication_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags about tokens, certificates aside."""
    parser.add_argument(
        "--token-auth-file", type=Path, help="file of bearer tokens, with lines token,user,uid[,groups]"
    )
    for name, default, about in (
        ("--anonymous-auth", None, "accept requests without credentials as system:anonymous (default: true)"),
        ("--enable-bootstrap-token-auth", False, "accept the tokens in secrets of kube-system"),
    ):
        parser.add_argument(name, type=boolean, nargs="?", const=True, default=default, metavar="BOOL", help=about)
    parser.add_argument(
        "--authentication-config",
        type=Path,
        metavar="FILE",
        help="AuthenticationConfiguration: JWT authenticators and anonymous requests; reloaded when it changes",
    )
    _add_oidc_flags(parser)
    parser.add_argument(
        "--api-audiences",
        type=comma_separated,
        default=(),
        help="audiences of tokens for this server (default: issuer)",
    )
    _add_token_webhook_flags(parser)


def _add_token_webhook_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a webhook that authenticates tokens."""
    parser.add_argument(
        "--authentication-token-webhook-config-file",
        type=Path,
        metavar="FILE",
        help="kubeconfig file of a webhook that is asked about bearer tokens",
    )
    parser.add_argument(
        "--authentication-token-webhook-version",
        default="v1beta1",
        metavar="VERSION",
        help="version of the TokenReviews that it gets: v1 or v1beta1 (default: v1beta1)",
    )
    parser.add_argument(
        "--authentication-token-webhook-cache-ttl",
        type=duration,
        default=120.0,
        metavar="DURATION",
        help="how long its answers are cached (default: 2m)",
    )


def _add_oidc_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of one OpenID issuer."""
    for name, about in (
        ("issuer-url", "URL of the OpenID issuer, with scheme https"),
        ("client-id", "client ID, which the tokens must have as audience"),
        ("ca-file", "authorities of the issuer's certificate (default: the host's)"),
        ("username-claim", "claim with the user name (default: sub)"),
        ("username-prefix", "prefix of user names; - for none (default: the issuer's URL and #, unless from email)"),
        ("groups-claim", "claim with the user's groups"),
        ("groups-prefix", "prefix of groups"),
    ):
        parser.add_argument(f"--oidc-{name}", metavar="VALUE", help=about)
    parser.add_argument(
        "--oidc-signing-algs",
        type=comma_separated,
        metavar="A,B",
        help="algorithms that tokens may be signed with (default: RS256)",
    )
    parser.add_argument(
        "--oidc-required-claim",
        action="append",
        type=key_value,
        metavar="KEY=VALUE",
        help="claim that tokens must have, with this value; may be repeated",
    )


def add_authorization_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags about permissions."""
    # Upstream's default is AlwaysAllow.
    parser.add_argument(
        "--authorization-mode",
        type=authorization_modes,
        help="authorizers in order: AlwaysAllow, AlwaysDeny, Node, RBAC, Webhook (default: Node,RBAC)",
    )
    parser.add_argument(
        "--authorization-config",
        type=Path,
        metavar="FILE",
        help="AuthorizationConfiguration with the authorizers, instead of these flags; reloaded when it changes",
    )
    parser.add_argument(
        "--authorization-webhook-config-file",
        type=Path,
        metavar="FILE",
        help="kubeconfig file of the webhook of --authorization-mode=Webhook",
    )
    parser.add_argument(
        "--authorization-webhook-version",
        metavar="VERSION",
        help="version of the SubjectAccessReviews that it gets: v1 or v1beta1 (default: v1beta1)",
    )
    for kind, default in (("authorized", "5m"), ("unauthorized", "30s")):
        parser.add_argument(
            f"--authorization-webhook-cache-{kind}-ttl",
            type=duration,
            metavar="DURATION",
            help=f"how long its {kind} answers are cached (default: {default})",
        )
