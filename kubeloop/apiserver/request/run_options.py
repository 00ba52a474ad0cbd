# SPDX-License-Identifier: Apache-2.0
"""Settings of request handling, by the names of kube-apiserver's flags."""

from __future__ import annotations

from dataclasses import dataclass

from kubeloop import KUBERNETES_VERSION


@dataclass(frozen=True, slots=True)
class ServerRunOptions:
    """Settings that handlers read; times in seconds."""

    allow_privileged: bool = True
    min_request_timeout: int = 1800  # watches without a timeout end between this and twice this
    request_timeout: float = 60.0  # of requests that are not long-running
    cors_allowed_origins: tuple[str, ...] = ()  # patterns of origins whose browsers may send requests
    hsts_directives: tuple[str, ...] = ()
    max_token_expiration: int = 0  # of service account tokens; 0: no limit
    extend_token_expiration: bool = True  # of tokens that are injected into pods, to a year
    not_ready_toleration_seconds: int = 300
    unreachable_toleration_seconds: int = 300
    git_version: str = f"v{KUBERNETES_VERSION}"  # that /version reports


DEFAULT_RUN_OPTIONS = ServerRunOptions()
