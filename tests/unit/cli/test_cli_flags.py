# SPDX-License-Identifier: Apache-2.0
"""Tests of accepted and rejected command lines."""

from __future__ import annotations

import argparse
import re
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kubeloop.apiserver.audit.backends import AuditWebhookConfig, BatchConfig, TruncateConfig
from kubeloop.apiserver.authentication.oidc.configuration import ClaimValidationRule, PrefixedClaimOrExpression
from kubeloop.apiserver.authentication.webhook import WebhookAuthenticatorConfig
from kubeloop.apiserver.authorization.webhook import WebhookAuthorizerConfig
from kubeloop.apiserver.server import ApiServerConfig, AuditConfig, ServiceAccountTokenConfig, StartupError
from kubeloop.cli.apiserver.run import advertised_address, server_config_of
from kubeloop.cli.apiserver.unsupported_flags import NO_EFFECT, ONLY_VALUE, UNSUPPORTED, reason_of
from kubeloop.cli.flags.chaos import faults_of
from kubeloop.cli.local_clusters.registry import state_dir
from kubeloop.cli.main import main, parse_command
from kubeloop.cli.pki.files import Pki
from kubeloop.cli.up.run import options_of
from kubeloop.clock import SystemClock


def _authority() -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
    now = SystemClock().now()
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


_AUTHORITY = _authority()


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    return capsys.readouterr().err.splitlines()[0]


@pytest.mark.parametrize("flag", UNSUPPORTED)
def test_unsupported_upstream_flag_is_rejected(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"is not supported: {reason_of(flag)}" in refusal(["apiserver", f"--{flag}", "something"], capsys)
    assert f"is not supported: {reason_of(flag)}" in refusal(["apiserver", f"--{flag}=something"], capsys)


@pytest.mark.parametrize("flag", NO_EFFECT)
def test_flag_without_effect_is_accepted_and_noted(flag: str) -> None:
    options = parse_command(["apiserver", f"--{flag}=1", "--v=1"])
    assert options.without_effect == [f"--{flag}"]


@pytest.mark.parametrize("flag", ONLY_VALUE)
def test_fixed_value_flag_accepts_only_its_value(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    for value in ONLY_VALUE[flag].values:
        parse_command(["apiserver", f"--{flag}={value}"])
    assert ONLY_VALUE[flag].reason in refusal(["apiserver", f"--{flag}=other"], capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        ["apiserver", "--no-such-flag"],
        ["apiserver", "--secure"],  # no abbreviations: a typing error must not become another flag
        ["up", "--data-dir", "/x", "--ephemeral"],
        ["up", "--port", "65536"],
        ["up", "--port", "-1"],
        ["up", "--bind-address", "localhost"],
        ["up", "--store", "etcd"],
        ["up", "--nodes", "many"],
        ["apiserver", "--event-ttl", "1 hour"],
        ["apiserver", "--event-ttl=-1s"],
        ["apiserver", "--anonymous-auth=perhaps"],
        ["apiserver", "--max-mutating-requests-inflight", "0"],
        ["apiserver", "--service-cluster-ip-range", "10.0.0.0/32"],
        ["apiserver", "--service-cluster-ip-range", "10.0.0.1/24"],
        ["apiserver", "--service-cluster-ip-range", "10.0.0.0/24,10.1.0.0/24"],
        ["apiserver", "--service-node-port-range", "30000"],
        ["apiserver", "--service-node-port-range", "30000-70000"],
        ["apiserver", "--authorization-mode", "RBAC,ABAC"],
        ["apiserver", "--authorization-mode", "RBAC,RBAC"],
        ["apiserver", "--authorization-mode", ""],
    ],
)
def test_invalid_command_line_is_rejected(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(arguments, capsys).startswith("error: ")


def test_flags_set_the_configuration(tmp_path: Path) -> None:
    flags = "--secure-port 7443 --bind-address=::1 --anonymous-auth=false --event-ttl 30m --request-timeout=5s"
    more = "--etcd-compaction-interval 0 --max-mutating-requests-inflight 7 --shutdown-delay-duration 2s --store memory"
    options = parse_command(["apiserver", *flags.split(), *more.split()])
    config = server_config_of(options, Pki(tmp_path), SystemClock())
    assert (config.port, config.host, config.anonymous, config.store) == (7443, "::1", False, "memory")
    assert (config.event_ttl, config.compaction_interval, config.shutdown_delay) == (1800.0, 0.0, 2.0)
    assert (config.max_mutating_requests_inflight, config.limits.body_timeout) == (7, 5.0)
    assert config.certificate == tmp_path / "apiserver.crt"
    assert config.client_authorities == (tmp_path / "ca.crt",)


def test_authentication_and_authorization_flags_are_honored(tmp_path: Path) -> None:
    plain = server_config_of(parse_command(["apiserver"]), Pki(tmp_path), SystemClock())
    assert plain.authorization_modes == ("Node", "RBAC")
    assert plain.service_account_tokens == ServiceAccountTokenConfig(tmp_path / "sa.key")
    assert (plain.bootstrap_tokens, plain.audit) == (False, None)
    flags = "--authorization-mode RBAC,AlwaysDeny --enable-bootstrap-token-auth --service-account-issuer https://me"
    more = "--api-audiences a,b --service-account-jwks-uri https://keys --audit-policy-file p --audit-log-path -"
    config = server_config_of(parse_command(["apiserver", *flags.split(), *more.split()]), Pki(tmp_path), SystemClock())
    assert config.authorization_modes == ("RBAC", "AlwaysDeny")
    assert config.service_account_tokens == ServiceAccountTokenConfig(
        tmp_path / "sa.key", ("https://me",), ("a", "b"), "https://keys"
    )
    assert config.bootstrap_tokens
    assert config.audit == AuditConfig(Path("p"), "-", 100, 100, 366)


def test_webhooks_of_authentication_and_authorization_are_configured(tmp_path: Path) -> None:
    def config_of(flags: str) -> ApiServerConfig:
        return server_config_of(parse_command(["apiserver", *flags.split()]), Pki(tmp_path), SystemClock())

    plain = config_of("")
    assert (plain.token_webhook, plain.authorization_webhook) == (None, None)
    tokens = "--authentication-token-webhook-config-file t"
    assert config_of(tokens).token_webhook == WebhookAuthenticatorConfig(Path("t"), "v1beta1", 120.0)
    more = "--authentication-token-webhook-version v1 --authentication-token-webhook-cache-ttl 0"
    assert config_of(f"{tokens} {more}").token_webhook == WebhookAuthenticatorConfig(Path("t"), "v1", 0.0)
    access = "--authorization-mode Node,Webhook --authorization-webhook-config-file a"
    assert config_of(access).authorization_webhook == WebhookAuthorizerConfig(Path("a"), "v1beta1", 300.0, 30.0)
    ttl = "--authorization-webhook-cache-authorized-ttl 1m --authorization-webhook-cache-unauthorized-ttl 0"
    found = config_of(f"{access} {ttl} --authorization-webhook-version=v1")
    assert found.authorization_webhook == WebhookAuthorizerConfig(Path("a"), "v1", 60.0, 0.0)
    assert found.authorization_modes == ("Node", "Webhook")
    for flags, told in (
        ("--authorization-mode Webhook", "authorization-mode Webhook's authorization config file not passed"),
        ("--authorization-webhook-config-file a", "cannot specify --authorization-webhook-config-file without mode"),
        (f"{access} --authorization-webhook-version v2", "unsupported webhook authorizer version"),
        (f"{tokens} --authentication-token-webhook-version v2", "unsupported authentication webhook version"),
    ):
        with pytest.raises(StartupError, match=told):
            config_of(flags)


def test_openid_issuer_is_configured_by_flags_or_a_file(tmp_path: Path) -> None:
    def config_of(flags: str) -> ApiServerConfig:
        return server_config_of(parse_command(["apiserver", *flags.split()]), Pki(tmp_path), SystemClock())

    assert config_of("").authentication is None
    required = "--oidc-issuer-url https://i --oidc-client-id me"
    found = config_of(required).authentication
    assert found is not None
    (one,) = found.configuration.jwt
    assert (one.issuer.url, one.issuer.audiences, found.algorithms) == ("https://i", ("me",), ("RS256",))
    assert one.claim_mappings.username == PrefixedClaimOrExpression("sub", "https://i#")
    (tmp_path / "ca").write_text(_AUTHORITY)
    more = (
        f"--oidc-ca-file {tmp_path / 'ca'} --oidc-username-claim email --oidc-username-prefix - --oidc-groups-claim g"
    )
    last = (
        "--oidc-groups-prefix p: --oidc-signing-algs RS256,ES256 --oidc-required-claim a=b=c --oidc-required-claim d=e"
    )
    found = config_of(f"{required} {more} {last}").authentication
    assert found is not None
    (one,) = found.configuration.jwt
    assert (one.issuer.certificate_authority, found.algorithms) == (_AUTHORITY, ("RS256", "ES256"))
    assert one.claim_mappings.username == PrefixedClaimOrExpression("email", "")
    assert one.claim_mappings.groups == PrefixedClaimOrExpression("g", "p:")
    assert one.claim_validation_rules == (ClaimValidationRule("a", "b=c"), ClaimValidationRule("d", "e"))
    path = tmp_path / "config"
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
    path.write_text(f"{head}anonymous: {{enabled: true, conditions: [{{path: /livez}}]}}")
    config = config_of(f"--authentication-config {path}")
    assert (config.anonymous, config.anonymous_paths, config.authentication_file) == (True, {"/livez"}, path)
    for flags, told in (
        ("--oidc-client-id me", "oidc-issuer-url and oidc-client-id must be specified together when any oidc-"),
        (f"{required} --authentication-config {path}", "authentication-config file and oidc-\\* flags are mutually"),
        ("--oidc-issuer-url http://i --oidc-client-id me", "URL scheme must be https"),
        (f"{required} --oidc-signing-algs none", "unsupported signing alg"),
        (f"--authentication-config {path} --anonymous-auth=false", "--anonymous-auth flag cannot be set when"),
        ("--oidc-issuer-url https://kubernetes.default.svc --oidc-client-id me", "disallowed issuers"),
    ):
        with pytest.raises(StartupError, match=told):
            config_of(flags)


def test_authorization_is_configured_by_a_file_or_flags(tmp_path: Path) -> None:
    def config_of(flags: str) -> ApiServerConfig:
        return server_config_of(parse_command(["apiserver", *flags.split()]), Pki(tmp_path), SystemClock())

    assert config_of("--authorization-config f").authorization_file == Path("f")
    for flag in ("--authorization-mode RBAC", "--authorization-webhook-cache-authorized-ttl 1s"):
        with pytest.raises(StartupError, match="--authorization-config can not be specified when"):
            config_of(f"--authorization-config f {flag}")


def test_anonymous_requests_are_refused_where_everything_is_allowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flags = ["apiserver", "--authorization-mode", "RBAC,AlwaysAllow"]
    assert not server_config_of(parse_command(flags), Pki(tmp_path), SystemClock()).anonymous
    assert caplog.messages == [
        "AnonymousAuth is not allowed with the AlwaysAllow authorizer. Resetting AnonymousAuth to false. "
        "You should use a different authorizer"
    ]
    # Upstream resets it even where it was asked for.
    assert not server_config_of(
        parse_command([*flags, "--anonymous-auth=true"]), Pki(tmp_path), SystemClock()
    ).anonymous
    caplog.clear()
    assert not server_config_of(
        parse_command([*flags, "--anonymous-auth=false"]), Pki(tmp_path), SystemClock()
    ).anonymous
    assert server_config_of(parse_command(["apiserver"]), Pki(tmp_path), SystemClock()).anonymous
    assert caplog.messages == []


def test_audit_backends_are_configured(tmp_path: Path) -> None:
    def audit_of(flags: str) -> AuditConfig | None:
        options = parse_command(["apiserver", "--audit-policy-file", "p", *flags.split()])
        return server_config_of(options, Pki(tmp_path), SystemClock()).audit

    plain = audit_of("--audit-webhook-config-file w")
    assert plain == AuditConfig(Path("p"), "", 100, 100, 366, webhook=AuditWebhookConfig(Path("w")))
    batch = "--audit-webhook-batch-buffer-size 5 --audit-webhook-batch-max-size 6 --audit-webhook-batch-max-wait 7s"
    rate = "--audit-webhook-batch-throttle-qps 1.5 --audit-webhook-batch-throttle-burst 9"
    cut = "--audit-webhook-truncate-enabled=true --audit-webhook-truncate-max-event-size 2"
    last = "--audit-webhook-truncate-max-batch-size 3 --audit-webhook-initial-backoff 1s --audit-webhook-mode blocking"
    found = audit_of(f"--audit-webhook-config-file w {batch} {rate} {cut} {last}")
    assert found is not None
    expected = BatchConfig(5, 6, 7.0, True, 1.5, 9)
    assert found.webhook == AuditWebhookConfig(Path("w"), 1.0, "blocking", expected, TruncateConfig(2, 3))
    logged = audit_of(
        "--audit-log-path - --audit-log-format legacy --audit-log-mode batch --audit-log-truncate-enabled=1"
    )
    assert logged == AuditConfig(Path("p"), "-", 100, 100, 366, "legacy", "batch", truncate=TruncateConfig())
    for flags, told in (
        ("--audit-log-path - --audit-log-format x", "invalid audit log format x, allowed formats are"),
        ("--audit-log-path - --audit-log-mode x", "invalid audit log mode x, allowed modes are"),
        ("--audit-log-path - --audit-log-version v1", "invalid group version, allowed versions are"),
        ("--audit-webhook-config-file w --audit-webhook-batch-buffer-size 0", "batch webhook buffer size 0, must be a"),
        ("--audit-webhook-config-file w --audit-webhook-batch-max-size 0", "batch webhook max batch size 0"),
        ("--audit-webhook-config-file w --audit-webhook-batch-throttle-qps 0", "batch webhook throttle QPS 0"),
        ("--audit-webhook-config-file w --audit-webhook-batch-throttle-burst 0", "batch webhook throttle burst 0"),
        (
            "--audit-webhook-config-file w --audit-webhook-truncate-max-event-size 0",
            "truncate webhook max event size 0",
        ),
        ("--audit-webhook-config-file w --audit-webhook-truncate-max-batch-size 1", "must be greater than max event"),
    ):
        with pytest.raises(StartupError, match=told):
            audit_of(flags)


@pytest.mark.parametrize("flag", ["--audit-policy-file", "--audit-log-path", "--audit-webhook-config-file"])
def test_audit_policy_and_log_must_be_given_together(flag: str, tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="must be given together"):
        server_config_of(parse_command(["apiserver", flag, "x"]), Pki(tmp_path), SystemClock())


def test_tokens_are_signed_with_a_key_on_p_256(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("not a key")
    options = parse_command(["apiserver", "--service-account-signing-key-file", str(tmp_path / "key")])
    with pytest.raises(StartupError, match="--service-account-signing-key-file"):
        server_config_of(options, Pki(tmp_path), SystemClock())


@pytest.mark.parametrize("text", ["30000-30099", "30000+99"])
def test_service_ranges_set_addresses_and_ports(text: str, tmp_path: Path) -> None:
    flags = ["--service-cluster-ip-range", "10.96.0.0/12,fd00::/108", "--service-node-port-range", text]
    config = server_config_of(parse_command(["apiserver", *flags]), Pki(tmp_path), SystemClock())
    assert config.service_ranges.networks == ("10.96.0.0/12", "fd00::/108")
    assert config.service_ranges.node_ports == range(30000, 30100)


def test_own_ca_is_trusted_beside_a_given_one_only_with_a_kubeconfig(tmp_path: Path) -> None:
    given = Path("/given/ca.crt")
    without = parse_command(["apiserver", f"--client-ca-file={given}"])
    asked = parse_command(["apiserver", f"--client-ca-file={given}", "--kubeconfig=/x"])
    assert server_config_of(without, Pki(tmp_path), SystemClock()).client_authorities == (given,)
    assert server_config_of(asked, Pki(tmp_path), SystemClock()).client_authorities == (given, tmp_path / "ca.crt")


@pytest.mark.parametrize(
    ("flags", "address"),
    [
        ("--advertise-address 192.0.2.9", "192.0.2.9"),
        ("--bind-address 127.0.0.1", "127.0.0.1"),
        ("--bind-address ::1 --advertise-address 2001:db8::5", "2001:db8::5"),
    ],
)
def test_advertised_address_is_the_given_one_else_the_bound_one(flags: str, address: str) -> None:
    options = parse_command(["apiserver", *flags.split()])
    assert advertised_address(options.bind_address, options.advertise_address) == address


@pytest.mark.parametrize("bound", ["0.0.0.0", "::"])
def test_server_on_all_addresses_advertises_a_routable_one(bound: str) -> None:
    assert not ip_address(advertised_address(bound)).is_unspecified


@pytest.mark.parametrize(("flags", "store"), [("", "sqlite:/d/store.db"), ("--store memory", "memory")])
def test_data_folder_has_store_and_kubeconfig(flags: str, store: str) -> None:
    options = parse_command(["up", "--data-dir", "/d", *flags.split()])
    plan = options_of(options, Path("/d"))
    assert (plan.store, plan.kubeconfig) == (store, Path("/d/admin.conf"))


@pytest.mark.parametrize(("flags", "store"), [("", "memory"), ("--store sqlite", "sqlite:/t/store.db")])
def test_ephemeral_plane_uses_memory_by_default(flags: str, store: str) -> None:
    assert options_of(parse_command(["up", "--ephemeral", *flags.split()]), Path("/t")).store == store


def test_data_folder_follows_the_state_folder_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert state_dir() == Path("/state/kubeloop")
    monkeypatch.setenv("XDG_STATE_HOME", "relative, and therefore void")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert state_dir() == Path("/home/somebody/.local/state/kubeloop")


def test_version_shows_both_versions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out.startswith("kubeloop 0.")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            "{apiVersion: kubeloop.dev/v1alpha1, kind: ChaosPlan, faults: [{fault: kill, every: 1s}]}",
            "kubeloop chaos run",
        ),
        ("{kind: Pod}", "missing required field `apiVersion`"),
    ],
)
def test_unsupported_plan_is_rejected(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "plan.yaml").write_text(content)
    with pytest.raises(StartupError, match=re.escape(told)):
        faults_of(argparse.Namespace(chaos_plan=tmp_path / "plan.yaml"))


def test_plan_of_calls_is_executed(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(
        "{apiVersion: kubeloop.dev/v1alpha1, kind: ChaosPlan, faults: [{fault: errors, chance: 1}]}"
    )
    followed = faults_of(argparse.Namespace(chaos_plan=tmp_path / "plan.yaml"))
    assert followed is not None
    assert followed.fault_of("somebody", "get", "pods", "web") is not None
    assert faults_of(argparse.Namespace(chaos_plan=None)) is None
