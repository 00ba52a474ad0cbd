# SPDX-License-Identifier: Apache-2.0
"""`kubeloop apiserver`: the API server alone."""

from __future__ import annotations

import argparse
import ipaddress
import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kubeloop import __version__
from kubeloop.api.features.effects import APISERVER
from kubeloop.apiserver.admission.plugin_names import AdmissionOptions
from kubeloop.apiserver.aggregator.lazy import AggregatorConfig
from kubeloop.apiserver.authentication import RequestHeaderConfig
from kubeloop.apiserver.registry.allocation import ServiceRanges
from kubeloop.apiserver.server import (
    ApiServerConfig,
    RunningServer,
    ServiceAccountTokenConfig,
    StartupError,
    start_server,
)
from kubeloop.cli.apiserver.access import access_config
from kubeloop.cli.apiserver.audit import audit_config
from kubeloop.cli.apiserver.kubelet_client import kubelet_config, serve_kubelet_metrics
from kubeloop.cli.apiserver.run_flags import run_options_of, tls_options_of
from kubeloop.cli.flags.chaos import faults_of
from kubeloop.cli.flags.runtime_config import resource_config_of
from kubeloop.cli.flags.values import flag_values
from kubeloop.cli.pki.files import KUBELET_CLIENT_USER, Pki, ensure_pki, serving_names
from kubeloop.cli.pki.kubeconfig import admin_kubeconfig, server_url, write_kubeconfig
from kubeloop.cli.program.foreground import run_in_foreground
from kubeloop.clock import Clock, SystemClock
from kubeloop.http import HttpLimits

log = logging.getLogger(__name__)


def run_apiserver(options: argparse.Namespace) -> int:
    """Run the API server; returns the exit code."""
    return run_in_foreground(
        lambda: _start(options, SystemClock()), logging_format=options.logging_format, verbosity=options.v
    )


async def _start(options: argparse.Namespace, clock: Clock) -> RunningServer:
    if options.without_effect:
        log.warning("flags without effect: %s", ", ".join(options.without_effect))
    if bool(options.tls_cert_file) != bool(options.tls_private_key_file):
        raise StartupError("--tls-cert-file and --tls-private-key-file must be given together")
    pki = _own_keys(options, clock)
    backend, _, path = options.store.partition(":")
    if backend == "sqlite" and path:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write_access(server: RunningServer) -> None:
        if options.kubeconfig and pki:
            url = server_url(options.bind_address, server.port)
            write_kubeconfig(options.kubeconfig, admin_kubeconfig(pki, options.tls_cert_file or pki.ca, url))

    server = await start_server(server_config_of(options, pki, clock), clock, write_access)
    if options.kubelet_metrics:
        serve_kubelet_metrics(server, clock)
    hint = f": export KUBECONFIG={options.kubeconfig.absolute()}" if options.kubeconfig and pki else ""
    url = server_url(options.bind_address, server.port)
    print(f"kubeloop apiserver {__version__} is ready at {url}{hint}", flush=True)
    return server


def _own_keys(options: argparse.Namespace, clock: Clock) -> Pki | None:
    """Create our own CA if the flags leave something for it to sign."""
    if options.tls_cert_file and not options.kubeconfig:
        return None
    addresses = (options.bind_address, advertised_address(options.bind_address, options.advertise_address))
    names = serving_names(addresses, options.service_cluster_ip_range[0], socket.gethostname())
    return ensure_pki(options.cert_dir, names, clock.now())


def advertised_address(bind_address: str, given: str | None = None) -> str:
    """Return the given or bound address; if bound to all, the one of the default route."""
    bound = ipaddress.ip_address(bind_address)
    if given or not bound.is_unspecified:
        return given or str(bound)
    family, outside = (socket.AF_INET, "192.0.2.1") if bound.version == 4 else (socket.AF_INET6, "2001:db8::1")
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((outside, 9))  # sends nothing: reads the routing table
        except OSError:
            return "127.0.0.1" if bound.version == 4 else "::1"
        return str(probe.getsockname()[0])


def _account_tokens(options: argparse.Namespace, pki: Pki | None) -> ServiceAccountTokenConfig | None:
    key = options.service_account_signing_key_file or (pki.account_key if pki else None)
    if key is None:
        return None
    further = tuple(options.service_account_key_file)
    if options.service_account_signing_key_file or further:
        from kubeloop.api.signed_tokens import SigningKey, read_public_keys

        _check_keys("--service-account-signing-key-file", key, SigningKey)
        for path in further:
            _check_keys("--service-account-key-file", path, read_public_keys)
    issuers = tuple(options.service_account_issuer) or ServiceAccountTokenConfig(key).issuers
    return ServiceAccountTokenConfig(key, issuers, options.api_audiences, options.service_account_jwks_uri, further)


def _check_keys(flag: str, path: Path, read: Callable[[bytes], object]) -> None:
    try:
        read(path.read_bytes())
    except ValueError as error:
        raise StartupError(f"{flag} {path}: {error}") from None


def default_request_headers(pki: Pki) -> RequestHeaderConfig:
    """Return request header authentication that trusts only our own front proxy."""
    return RequestHeaderConfig(pki.front_proxy_ca, allowed_names=("front-proxy-client",))


def _request_headers(options: argparse.Namespace, pki: Pki | None) -> RequestHeaderConfig | None:
    if options.requestheader_client_ca_file is None:
        return default_request_headers(pki) if pki else None
    usual = RequestHeaderConfig(options.requestheader_client_ca_file)
    return RequestHeaderConfig(
        options.requestheader_client_ca_file,
        options.requestheader_allowed_names,
        options.requestheader_username_headers or usual.username_headers,
        options.requestheader_uid_headers or usual.uid_headers,
        options.requestheader_group_headers or usual.group_headers,
        options.requestheader_extra_headers_prefix or usual.extra_prefixes,
    )


def _aggregator(options: argparse.Namespace, pki: Pki | None) -> AggregatorConfig:
    certificate, key = options.proxy_client_cert_file, options.proxy_client_key_file
    if bool(certificate) != bool(key):
        raise StartupError("--proxy-client-cert-file and --proxy-client-key-file must be given together")
    if pki is not None and not certificate and options.requestheader_client_ca_file is None:
        certificate, key = pki.front_proxy_certificate, pki.front_proxy_key
    return AggregatorConfig(certificate, key, options.enable_aggregator_routing)


def store_of(options: argparse.Namespace) -> str:
    """Return the store's URL; etcd's flags take precedence."""
    if not options.etcd_servers:
        return str(options.store)
    from kubeloop.store.etcd.config import config_of_servers

    files = {name: getattr(options, f"etcd_{name}") for name in ("cafile", "certfile", "keyfile")}
    return config_of_servers(options.etcd_servers, options.etcd_prefix, files).url()


def server_config_of(options: argparse.Namespace, pki: Pki | None, clock: Clock) -> ApiServerConfig:
    """Convert the flags to the server's configuration."""
    authorities = [options.client_ca_file] if options.client_ca_file else []
    if pki and (options.kubeconfig or not authorities):
        authorities.append(pki.ca)
    config = ApiServerConfig(
        store=store_of(options),
        host=options.bind_address,
        port=options.secure_port,
        advertise_address=advertised_address(options.bind_address, options.advertise_address),
        certificate=options.tls_cert_file or (pki.serving_certificate if pki else None),
        key=options.tls_private_key_file or (pki.serving_key if pki else None),
        client_authorities=tuple(authorities),
        shutdown_delay=options.shutdown_delay_duration,
        service_ranges=ServiceRanges(options.service_cluster_ip_range, options.service_node_port_range),
        resource_config=resource_config_of(options, APISERVER),
        front_proxy=_request_headers(options, pki),
        aggregator=_aggregator(options, pki),
        external_hostname=options.external_hostname,
        livez_grace_period=options.livez_grace_period,
        endpoint_reconciler=options.endpoint_reconciler_type != "none",
        service_node_port=options.kubernetes_service_node_port,
        run_options=run_options_of(options),
        fault_injector=faults_of(options),
        kubelet_client=kubelet_config(options, pki),
        kubelet_client_user=KUBELET_CLIENT_USER if pki and not options.kubelet_client_certificate else "",
    )
    return with_shared_flags(config, options, pki, clock)


def _admission_options(options: argparse.Namespace) -> AdmissionOptions:
    return AdmissionOptions(
        tuple(options.enable_admission_plugins),
        tuple(options.disable_admission_plugins),
        tuple(options.admission_control),
        options.admission_control_config_file,
    )


def with_shared_flags(
    config: ApiServerConfig, options: argparse.Namespace, pki: Pki | None, clock: Clock
) -> ApiServerConfig:
    """Return the configuration with the flags that `kubeloop up` has, too."""
    accounts = _account_tokens(options, pki)
    access = access_config(options, accounts.issuers if accounts is not None else (), clock)
    return replace(
        config,
        token_file=options.token_auth_file,
        anonymous=access.anonymous,
        anonymous_paths=access.anonymous_paths,
        authentication=access.authentication,
        authentication_file=options.authentication_config,
        token_webhook=access.token_webhook,
        authorization_modes=access.modes,
        authorization_webhook=access.authorization_webhook,
        authorization_file=options.authorization_config,
        kubeconfigs=access.kubeconfigs,
        service_account_tokens=accounts,
        bootstrap_tokens=options.enable_bootstrap_token_auth,
        audit=audit_config(options),
        admission=_admission_options(options),
        max_mutating_requests_inflight=options.max_mutating_requests_inflight,
        max_requests_inflight=options.max_requests_inflight,
        flowcontrol=options.enable_priority_and_fairness,
        compaction_interval=options.etcd_compaction_interval,
        event_ttl=options.event_ttl,
        encryption=options.encryption_provider_config,
        encryption_reload=options.encryption_provider_config_automatic_reload,
        limits=HttpLimits(body_timeout=options.request_timeout),
        tls=tls_options_of(options),
        reuse_port=options.permit_port_sharing,
        flags=flag_values(options),
    )
