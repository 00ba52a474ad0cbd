"""What the command line accepts, and how it refuses the rest."""

from __future__ import annotations

import argparse
import re
from ipaddress import ip_address
from pathlib import Path

import pytest

from kubeloop.apiserver.server import AuditConfig, ServiceAccountTokenConfig, StartupError
from kubeloop.cli.apiserver.run import advertised_address, server_config_of
from kubeloop.cli.apiserver.unsupported import ONLY_VALUE, UNSUPPORTED
from kubeloop.cli.flags.chaos import faults_of
from kubeloop.cli.main import _parser, main
from kubeloop.cli.pki.files import Pki
from kubeloop.cli.up.flags import default_data_dir
from kubeloop.cli.up.run import options_of


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("flag", UNSUPPORTED)
def test_flag_of_upstream_that_we_do_not_follow_is_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "does not support yet" in refusal(["apiserver", f"--{flag}", "something"], capsys)
    assert "does not support yet" in refusal(["apiserver", f"--{flag}=something"], capsys)


@pytest.mark.parametrize("flag", ONLY_VALUE)
def test_flag_that_can_only_have_one_value_is_accepted_with_it_and_refused_with_another(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _parser().parse_args(["apiserver", f"--{flag}={ONLY_VALUE[flag]}"])
    assert f"can only be {ONLY_VALUE[flag]}" in refusal(["apiserver", f"--{flag}=other"], capsys)


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
        ["apiserver", "--authorization-mode", "RBAC,Webhook"],
        ["apiserver", "--authorization-mode", "RBAC,RBAC"],
        ["apiserver", "--authorization-mode", ""],
        [],
    ],
)
def test_wrong_command_line_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(arguments, capsys).startswith("kubeloop")


def test_flags_of_the_api_server_reach_its_configuration(tmp_path: Path) -> None:
    flags = "--secure-port 7443 --bind-address=::1 --anonymous-auth=false --event-ttl 30m --request-timeout=5s"
    more = "--etcd-compaction-interval 0 --max-mutating-requests-inflight 7 --shutdown-delay-duration 2s --store memory"
    options = _parser().parse_args(["apiserver", *flags.split(), *more.split()])
    config = server_config_of(options, Pki(tmp_path))
    assert (config.port, config.host, config.anonymous, config.store) == (7443, "::1", False, "memory")
    assert (config.event_ttl, config.compaction_interval, config.shutdown_delay) == (1800.0, 0.0, 2.0)
    assert (config.writes_in_flight, config.limits.body_timeout) == (7, 5.0)
    assert config.certificate == tmp_path / "apiserver.crt"
    assert config.client_authorities == (tmp_path / "ca.crt",)


def test_who_may_come_in_and_do_what_is_decided_as_told(tmp_path: Path) -> None:
    plain = server_config_of(_parser().parse_args(["apiserver"]), Pki(tmp_path))
    assert plain.authorization_modes == ("Node", "RBAC")
    assert plain.accounts == ServiceAccountTokenConfig(tmp_path / "sa.key")
    assert (plain.bootstrap_tokens, plain.audit) == (False, None)
    flags = "--authorization-mode RBAC,AlwaysDeny --enable-bootstrap-token-auth --service-account-issuer https://me"
    more = "--api-audiences a,b --service-account-jwks-uri https://keys --audit-policy-file p --audit-log-path -"
    config = server_config_of(_parser().parse_args(["apiserver", *flags.split(), *more.split()]), Pki(tmp_path))
    assert config.authorization_modes == ("RBAC", "AlwaysDeny")
    assert config.accounts == ServiceAccountTokenConfig(
        tmp_path / "sa.key", ("https://me",), ("a", "b"), "https://keys"
    )
    assert config.bootstrap_tokens
    assert config.audit == AuditConfig(Path("p"), "-")


@pytest.mark.parametrize("flag", ["--audit-policy-file", "--audit-log-path"])
def test_an_audit_policy_and_its_log_need_each_other(flag: str, tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="need each other"):
        server_config_of(_parser().parse_args(["apiserver", flag, "x"]), Pki(tmp_path))


def test_tokens_are_signed_with_a_key_on_p_256(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("not a key")
    options = _parser().parse_args(["apiserver", "--service-account-signing-key-file", str(tmp_path / "key")])
    with pytest.raises(StartupError, match="--service-account-signing-key-file"):
        server_config_of(options, Pki(tmp_path))


@pytest.mark.parametrize("text", ["30000-30099", "30000+99"])
def test_services_get_addresses_and_ports_of_the_given_ranges(text: str, tmp_path: Path) -> None:
    flags = ["--service-cluster-ip-range", "10.96.0.0/12,fd00::/108", "--service-node-port-range", text]
    config = server_config_of(_parser().parse_args(["apiserver", *flags]), Pki(tmp_path))
    assert config.services.networks == ("10.96.0.0/12", "fd00::/108")
    assert config.services.node_ports == range(30000, 30100)


def test_own_authority_is_trusted_beside_a_given_one_only_when_a_kubeconfig_is_asked_for(tmp_path: Path) -> None:
    given = Path("/given/ca.crt")
    without = _parser().parse_args(["apiserver", f"--client-ca-file={given}"])
    asked = _parser().parse_args(["apiserver", f"--client-ca-file={given}", "--kubeconfig=/x"])
    assert server_config_of(without, Pki(tmp_path)).client_authorities == (given,)
    assert server_config_of(asked, Pki(tmp_path)).client_authorities == (given, tmp_path / "ca.crt")


@pytest.mark.parametrize(
    ("flags", "address"),
    [
        ("--advertise-address 192.0.2.9", "192.0.2.9"),
        ("--bind-address 127.0.0.1", "127.0.0.1"),
        ("--bind-address ::1 --advertise-address 2001:db8::5", "2001:db8::5"),
    ],
)
def test_advertised_address_is_the_given_one_else_the_bound_one(flags: str, address: str) -> None:
    assert advertised_address(_parser().parse_args(["apiserver", *flags.split()])) == address


@pytest.mark.parametrize("bound", ["0.0.0.0", "::"])
def test_server_bound_to_all_addresses_advertises_one_that_can_be_called(bound: str) -> None:
    found = advertised_address(_parser().parse_args(["apiserver", "--bind-address", bound]))
    assert not ip_address(found).is_unspecified


@pytest.mark.parametrize(("flags", "store"), [("", "sqlite:/d/store.db"), ("--store memory", "memory")])
def test_data_folder_holds_store_and_kubeconfig(flags: str, store: str) -> None:
    options = _parser().parse_args(["up", "--data-dir", "/d", *flags.split()])
    plan = options_of(options, Path("/d"))
    assert (plan.store, plan.kubeconfig) == (store, Path("/d/admin.conf"))


@pytest.mark.parametrize(("flags", "store"), [("", "memory"), ("--store sqlite", "sqlite:/t/store.db")])
def test_ephemeral_plane_lives_in_memory_unless_told_otherwise(flags: str, store: str) -> None:
    assert options_of(_parser().parse_args(["up", "--ephemeral", *flags.split()]), Path("/t")).store == store


def test_data_folder_follows_the_state_folder_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert default_data_dir() == Path("/state/kubeloop")
    monkeypatch.setenv("XDG_STATE_HOME", "relative, and therefore void")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_data_dir() == Path("/home/somebody/.local/state/kubeloop")


def test_version_names_both_versions(capsys: pytest.CaptureFixture[str]) -> None:
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
def test_a_plan_that_no_server_can_carry_out_is_refused(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "plan.yaml").write_text(content)
    with pytest.raises(StartupError, match=re.escape(told)):
        faults_of(argparse.Namespace(chaos_plan=tmp_path / "plan.yaml"))


def test_a_plan_of_calls_is_followed_and_none_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(
        "{apiVersion: kubeloop.dev/v1alpha1, kind: ChaosPlan, faults: [{fault: errors, chance: 1}]}"
    )
    followed = faults_of(argparse.Namespace(chaos_plan=tmp_path / "plan.yaml"))
    assert followed is not None
    assert followed.strike("somebody", "get", "pods", "web") is not None
    assert faults_of(argparse.Namespace(chaos_plan=None)) is None
