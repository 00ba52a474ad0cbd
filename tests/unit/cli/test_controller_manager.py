# SPDX-License-Identifier: Apache-2.0
"""Tests of the controller manager's flags, its port's authorization, and its status output."""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeloop.api import errors
from kubeloop.api.generated.authentication_v1 import TokenReview, TokenReviewStatus, UserInfo
from kubeloop.api.generated.authorization_v1 import SubjectAccessReview, SubjectAccessReviewStatus
from kubeloop.cli.controller_manager.effective_flags import IN_USE, NO_EFFECT, REFUSED, refused_flags, unused_flags
from kubeloop.cli.controller_manager.flags import ManagerConfigError, config_of, flag_of
from kubeloop.cli.controller_manager.run import root_ca_of, run_controller_manager
from kubeloop.cli.controller_manager.status import format_status
from kubeloop.cli.main import main, parse_command
from kubeloop.cli.pki.self_signed_certificate import ensure_self_signed
from kubeloop.cli.program import elected_program
from kubeloop.cli.secure_port.authz import DelegatedAuthorizer
from kubeloop.cli.secure_port.clients import server_of
from kubeloop.cli.secure_port.server import CONFIGZ, SecurePortHandler, configz_of
from kubeloop.client.config.server_config import Pem
from kubeloop.client.config.server_config import ServerConfig as Server
from kubeloop.client.errors import ConfigError, ConnectError
from kubeloop.controllers.app.config import ManagerConfig, defaults
from kubeloop.http import Request
from kubeloop.sim.loop import VirtualClock, VirtualLoop, run_virtual

SOURCES = Path(__file__).parents[3] / "kubeloop"


def parsed(*arguments: str) -> ManagerConfig:
    return config_of(parse_command(["controller-manager", *arguments]))


# -- flags


def test_defaults_match_upstream() -> None:
    config = parsed()
    assert config == ManagerConfig()
    assert (config.secure_port, config.leader_elect, config.controllers) == (10257, True, ("*",))
    assert (config.kube_api_qps, config.kube_api_burst, config.min_resync_period) == (20.0, 30, 12 * 3600)
    assert (config.concurrent_gc_syncs, config.terminated_pod_gc_threshold) == (20, 12500)
    assert (config.node_monitor_grace_period, config.node_monitor_period) == (50.0, 5.0)
    assert config.leader_elect_resource_name == "kube-controller-manager"


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        ("--controllers=*,-ttl", "controllers", ("*", "-ttl")),
        ("--controllers=ttl --controllers=job", "controllers", ("ttl", "job")),
        ("--controllers=", "controllers", ()),
        ("--leader-elect=false", "leader_elect", False),
        ("--use-service-account-credentials", "use_service_account_credentials", True),
        ("--node-monitor-grace-period 1m30s", "node_monitor_grace_period", 90.0),
        ("--concurrent-gc-syncs=7", "concurrent_gc_syncs", 7),
        ("--terminated-pod-gc-threshold=-1", "terminated_pod_gc_threshold", -1),
        ("--kube-api-qps 0.5", "kube_api_qps", 0.5),
        ("--feature-gates=A=true,B=false", "feature_gates", ("A=true", "B=false")),
        ("-v 4", "v", 4),
        ("--v=4", "v", 4),
        ("--load a:b --load c:d", "load", ("a:b", "c:d")),
    ],
)
def test_flag_is_parsed_like_upstream(arguments: str, name: str, value: object) -> None:
    assert getattr(parsed(*arguments.split()), name) == value


@pytest.mark.parametrize(
    "arguments",
    [
        "--no-such-flag",
        "--leader",
        "--kube-api-burst=many",
        "--leader-elect=perhaps",
        "--node-monitor-period 5",
        "start",
    ],
)
def test_invalid_command_line_is_rejected(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["controller-manager", *arguments.split()])
    assert end.value.code == 2
    assert "kubeloop" in capsys.readouterr().err


def test_command_line_overrides_the_file(tmp_path: Path) -> None:
    path = tmp_path / "flags.yaml"
    path.write_text(
        "concurrent-gc-syncs: 7\ncontrollers: [serviceaccount]\nfeature-gates: {A: true}\n"
        "leader-elect: false\nnode-monitor-period: 10s\nkube-api-burst: 9\n"
    )
    config = parsed("--config", str(path), "--kube-api-burst=1", "--controllers=*")
    assert (config.concurrent_gc_syncs, config.leader_elect, config.node_monitor_period) == (7, False, 10.0)
    assert (config.kube_api_burst, config.controllers, config.feature_gates) == (1, ("*",), ("A=true",))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("concurent-gc-syncs: 1", "unknown flag concurent-gc-syncs"),
        ("leader-elect: perhaps", "leader-elect: 'perhaps' is neither true nor false"),
        ("[a, b]", "expected a mapping of flags to values"),
        ("a: [", "invalid YAML"),
    ],
)
def test_invalid_file_of_flags_is_rejected(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "flags.yaml"
    path.write_text(text)
    with pytest.raises(ManagerConfigError, match=re.escape(complaint)):
        parsed("--config", str(path))


def test_effective_flags_are_those_read_by_the_code() -> None:
    modules = [*(SOURCES / "cli").rglob("*.py"), *(SOURCES / "controllers").rglob("*.py")]
    code = "\n".join(path.read_text() for path in modules if path.name not in ("config.py", "effective_flags.py"))
    read = {name for name in ManagerConfig.__struct_fields__ if re.search(rf"config\.{name}\b", code)}
    assert read == IN_USE


def test_changed_flag_without_effect_is_named() -> None:
    assert unused_flags(parsed("--cloud-config=file", "--v=2", "--cluster-cidr=")) == ["cloud_config"]


def test_unsupported_flag_is_rejected() -> None:
    assert refused_flags(parsed("--enable-leader-migration")) == ["enable_leader_migration"]


def test_every_flag_has_an_effect_or_a_reason_for_having_none() -> None:
    assert set(defaults()) == IN_USE | NO_EFFECT.keys() | REFUSED.keys()
    assert not IN_USE & (NO_EFFECT.keys() | REFUSED.keys())


def test_configz_shows_every_flag() -> None:
    shown = configz_of(parsed("--concurrent-gc-syncs=7"), ["a"], ["--concurrent-gc-syncs"])[CONFIGZ]
    assert shown["flags"]["concurrent-gc-syncs"] == 7
    assert set(shown["flags"]) == {flag_of(name)[2:] for name in ManagerConfig.__struct_fields__}
    assert shown["kubeloop"] == {
        "running": ["a"],
        "flagsWithoutEffect": ["--concurrent-gc-syncs"],
    }


# -- starting


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--controllers=nonsense", '"nonsense" is not in the list of known controllers: '),
        ("--service-account-private-key-file=/nowhere", "--service-account-private-key-file: "),
        (
            "--cluster-signing-cert-file=/nowhere --cluster-signing-key-file=/nowhere",
            "unable to read a signer's file: ",
        ),
        ("--leader-elect-lease-duration=5s", "leaseDuration must be greater than renewDeadline"),
        ("--leader-elect-resource-lock=endpoints", 'resourceLock value must be "leases"'),
        ("--load nowhere", "--load nowhere: must be of the form module:name"),
        ("--load nowhere:x", "--load nowhere:x: ModuleNotFoundError"),
        ("--enable-leader-migration", "--enable-leader-migration is not supported: "),
        ("--logging-format=xml", "--logging-format must be text or json, not xml"),
    ],
)
def test_startup_errors_are_reported_in_one_sentence(
    arguments: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["controller-manager", "--master", "http://127.0.0.1:1", "--secure-port=0", *arguments.split()]
    assert run_controller_manager(parse_command(command)) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"kubeloop: {complaint}")
    assert said.count("\n") == 1


def test_server_is_never_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/somebody's/production")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="--kubeconfig or --master is required outside of a cluster"):
        server_of(ManagerConfig())


def test_root_ca_is_the_given_one_or_the_trusted_one(tmp_path: Path) -> None:
    given, trusted = tmp_path / "given", tmp_path / "trusted"
    given.write_text("given")
    trusted.write_text("trusted")
    server = Server("https://x", Pem(file=str(trusted)))
    assert root_ca_of(ManagerConfig(root_ca_file=str(given)), server) == "given"
    assert root_ca_of(ManagerConfig(), server) == "trusted"
    assert root_ca_of(ManagerConfig(), Server("https://x", Pem(data=b"inline"))) == "inline"
    assert root_ca_of(ManagerConfig(), Server("https://x")) == ""


def test_certificate_of_the_port_is_kept_until_it_expires_soon(tmp_path: Path) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    certificate, key = ensure_self_signed(tmp_path / "x", "manager", ("localhost", "127.0.0.1"), now)
    first = certificate.read_bytes()
    assert key.stat().st_mode & 0o077 == 0
    ensure_self_signed(tmp_path / "x", "manager", ("localhost",), now + timedelta(days=200))
    assert certificate.read_bytes() == first
    ensure_self_signed(tmp_path / "x", "manager", ("localhost",), now + timedelta(days=300))
    assert certificate.read_bytes() != first


def test_programs_that_start_together_share_one_certificate(tmp_path: Path) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    together = threading.Barrier(8)

    def start(_: int) -> tuple[bytes, bytes]:
        together.wait()
        certificate, key = ensure_self_signed(tmp_path / "x", "manager", ("localhost",), now)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)  # raises for a certificate with the key of another program
        return certificate.read_bytes(), key.read_bytes()

    with ThreadPoolExecutor(8) as programs:
        assert len(set(programs.map(start, range(8)))) == 1


def test_certificate_without_its_own_key_is_replaced(tmp_path: Path) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    certificate, _ = ensure_self_signed(tmp_path, "manager", ("localhost",), now)
    other, _ = ensure_self_signed(tmp_path / "other", "manager", ("localhost",), now)
    certificate.write_bytes(other.read_bytes())  # as after a crash between the two files
    certificate, key = ensure_self_signed(tmp_path, "manager", ("localhost",), now)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)


def test_stack_of_a_blocking_call_is_logged(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(elected_program, "_BLOCKED_SECONDS", 0.05)

    async def block() -> None:
        living = asyncio.create_task(elected_program._watchdog())
        await asyncio.sleep(0)
        never = threading.Event()
        for _ in range(1000):
            if "in block" in told():
                break
            never.wait(0.02)
        living.cancel()
        await asyncio.wait([living])

    said: list[str] = []

    def told() -> str:
        said.append(capfd.readouterr().err)
        return "".join(said)

    asyncio.run(block())
    assert "in block" in told()


# -- authorization


class Reviewer:
    """API server with one token and one permission."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def create(self, review: Any) -> Any:
        self.asked.append(review)
        if isinstance(review, TokenReview):
            known = review.spec.token == "good"
            user = UserInfo(username="somebody", groups=("people",))
            return TokenReview(status=TokenReviewStatus(authenticated=known, user=user))
        allowed = review.spec.user == "somebody" and review.spec.non_resource_attributes.path == "/metrics"
        return SubjectAccessReview(status=SubjectAccessReviewStatus(allowed=allowed))


def with_access(scenario: Callable[[DelegatedAuthorizer, Reviewer, VirtualLoop], Awaitable[None]]) -> None:
    loop = VirtualLoop()

    async def main() -> None:
        reviewer = Reviewer()
        client: Any = reviewer
        await scenario(DelegatedAuthorizer(client, client, ManagerConfig(), VirtualClock(loop)), reviewer, loop)

    run_virtual(main(), loop=loop)


def request(path: str, token: str = "", method: str = "GET") -> Request:
    return Request(method, path, headers={"authorization": f"Bearer {token}"} if token else {})


def test_health_is_public_but_its_reasons_are_not() -> None:
    async def scenario(access: DelegatedAuthorizer, reviewer: Reviewer, _: VirtualLoop) -> None:
        for path in ("/healthz", "/livez", "/readyz"):
            await access.check(request(path))
        assert reviewer.asked == []
        with pytest.raises(errors.Forbidden):
            await access.check(request("/healthz/serviceaccount-controller"))

    with_access(scenario)


def test_unknown_user_is_forbidden_and_invalid_token_unauthorized() -> None:
    async def scenario(access: DelegatedAuthorizer, reviewer: Reviewer, _: VirtualLoop) -> None:
        with pytest.raises(errors.Forbidden, match='User "system:anonymous" cannot get path "/metrics"'):
            await access.check(request("/metrics"))
        with pytest.raises(errors.Unauthorized):
            await access.check(request("/metrics", "bad"))
        assert reviewer.asked[0].spec.groups == ("system:unauthenticated",)

    with_access(scenario)


def test_user_sees_only_what_the_api_server_allows() -> None:
    async def scenario(access: DelegatedAuthorizer, reviewer: Reviewer, _: VirtualLoop) -> None:
        await access.check(request("/metrics", "good"))
        with pytest.raises(errors.Forbidden):
            await access.check(request("/configz", "good"))
        assert reviewer.asked[1].spec.groups == ("people", "system:authenticated")

    with_access(scenario)


def test_authorization_results_are_cached_for_ten_seconds() -> None:
    async def scenario(access: DelegatedAuthorizer, reviewer: Reviewer, loop: VirtualLoop) -> None:
        for _ in range(3):
            await access.check(request("/metrics", "good"))
        assert len(reviewer.asked) == 2
        await loop.advance(11)
        await access.check(request("/metrics", "good"))
        assert len(reviewer.asked) == 4

    with_access(scenario)


def test_requests_are_denied_while_the_api_server_is_unavailable() -> None:
    class Unreachable(Reviewer):
        async def create(self, review: Any) -> Any:
            raise ConnectError("nobody there")

    async def main() -> None:
        client: Any = Unreachable()
        told: Any = None
        pages = SecurePortHandler.__new__(SecurePortHandler)
        pages._access = DelegatedAuthorizer(client, client, ManagerConfig(), VirtualClock(loop))
        pages._told = told
        assert (await pages.handle(request("/metrics"))).status == 500

    loop = VirtualLoop()
    run_virtual(main(), loop=loop)


# -- status


def loop_status(**more: Any) -> dict[str, Any]:
    return {
        "name": "a", "state": "running", "healthy": True, "why": "", "workers": 5, "active": 1, "depth": 2,
        "delayed": 1, "reconciles": 40, "rate": 2.0, "latency": 0.0125, "errors": 0, "lastError": "",
        "lastErrorKey": "", "restarts": 0, "lastFailure": "", **more,
    }  # fmt: skip


def test_status_is_a_table() -> None:
    unhealthy = loop_status(name="b", state="restarting", healthy=False, why="ValueError: broken", restarts=3)
    found = {"leader": "me", "leading": True, "loops": [loop_status(), unhealthy]}
    head, first, second, leader = format_status(found).splitlines()
    assert head.split()[:3] == ["LOOP", "STATE", "QUEUE"]
    assert first.split() == ["a", "running", "3", "1/5", "2.0/s", "12.5ms", "40", "0", "0", "-"]
    assert "restarting, unhealthy" in second
    assert second.endswith("ValueError: broken")
    assert leader == "leader: me (this manager is the leader)"


def test_status_of_an_unreachable_manager_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(
        "kind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "users: [{name: a, user: {token: secret}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n"
    )
    command = ["controller-manager", "status", "--server=https://127.0.0.1:1", f"--kubeconfig={config}"]
    assert main(command) == 1
    assert capsys.readouterr().err.startswith("kubeloop: https://127.0.0.1:1: ")


# -- manifests


def test_static_pod_has_valid_flags() -> None:
    manifest = yaml.safe_load((SOURCES.parent / "deploy/controller-manager/static-pod.yaml").read_text())
    (container,) = manifest["spec"]["containers"]
    command, *flags = container["args"]
    assert command == "controller-manager"
    config = parsed(*flags)
    assert config.use_service_account_credentials
    assert config.leader_elect
    assert not refused_flags(config)
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {config.cert_dir, config.kubeconfig} <= mounted
    assert container["livenessProbe"]["httpGet"]["port"] == config.secure_port
