# SPDX-License-Identifier: Apache-2.0
"""Configurations: where they are looked for, how files merge, what is wrong with them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeloop.client.config.server_config import Pem, ServerConfig, in_cluster, load_config
from kubeloop.client.errors import ConfigError


def document(name: str = "a", cluster: Any = None, user: Any = None, context: Any = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, **(context or {})}}],
        "current-context": name,
    }


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def loaded(tmp_path: Path, content: Any, context: str = "") -> ServerConfig:
    return load_config(write(tmp_path / "config", content), context)


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_all_kubeconfig_fields_are_read(tmp_path: Path) -> None:
    cluster = {
        "certificate-authority-data": b64("CA"),
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:3128",
        "disable-compression": True,
    }
    user = {
        "client-certificate": "certs/me.crt",
        "client-key-data": b64("KEY"),
        "tokenFile": "/run/token",
        "as": "jane",
        "as-uid": "u1",
        "as-groups": ["devs"],
        "as-user-extra": {"reason": ["x", "y"]},
    }
    config = loaded(tmp_path, document(cluster=cluster, user=user, context={"namespace": "work"}))
    assert config.server == "https://a:6443"
    assert (config.server_name, config.proxy_url, config.compression) == ("kubernetes", "http://proxy:3128", False)
    assert (config.authority, config.key) == (Pem(data=b"CA"), Pem(data=b"KEY"))
    assert config.certificate == Pem(file=str(tmp_path / "certs/me.crt"))
    assert (config.token_file, config.namespace) == ("/run/token", "work")
    whom = config.impersonation
    assert (whom.user, whom.uid, whom.groups, dict(whom.extra)) == ("jane", "u1", ("devs",), {"reason": ("x", "y")})


def test_context_can_be_selected(tmp_path: Path) -> None:
    both = document("a")
    other = document("b")
    for section in ("clusters", "users", "contexts"):
        both[section] += other[section]
    assert loaded(tmp_path, both).server == "https://a:6443"
    assert loaded(tmp_path, both, "b").server == "https://b:6443"


def test_first_of_several_files_wins(tmp_path: Path) -> None:
    first = document("a")
    del first["current-context"]
    second = document("b")
    second["clusters"].append({"name": "a", "cluster": {"server": "https://late:1"}})
    paths = [write(tmp_path / "one", first), tmp_path / "missing", write(tmp_path / "two", second)]
    environ = {"KUBECONFIG": ":".join(map(str, paths))}
    assert load_config(environ=environ).server == "https://b:6443"
    assert load_config(context="a", environ=environ).server == "https://a:6443"


def test_relative_paths_are_resolved_from_their_file(tmp_path: Path) -> None:
    first = write(tmp_path / "x" / "one", document("a", user={"tokenFile": "token"}))
    second = write(tmp_path / "y" / "two", document("b", user={"tokenFile": "token"}))
    environ = {"KUBECONFIG": f"{first}:{second}"}
    assert load_config(context="a", environ=environ).token_file == str(tmp_path / "x" / "token")
    assert load_config(context="b", environ=environ).token_file == str(tmp_path / "y" / "token")


def test_home_folder_is_used_without_the_variable(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", document("a"))
    assert load_config(environ={"HOME": str(tmp_path)}).server == "https://a:6443"


def test_in_cluster_config_uses_the_service_account(tmp_path: Path) -> None:
    for name, content in (("token", "t"), ("ca.crt", "CA"), ("namespace", "work\n")):
        write(tmp_path / name, content)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    config = in_cluster(environ, tmp_path)
    assert (config.server, config.namespace) == ("https://[fd00::1]:443", "work")
    assert (config.token_file, config.authority.file) == (str(tmp_path / "token"), str(tmp_path / "ca.crt"))
    (tmp_path / "token").unlink()
    with pytest.raises(ConfigError, match="no service account token"):
        in_cluster(environ, tmp_path)


def test_an_exec_plugin_is_read(tmp_path: Path) -> None:
    plugin = {
        "command": "./bin/login",
        "args": ["--cluster", 7],
        "env": [{"name": "X", "value": "1"}],
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "provideClusterInfo": True,
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster = {"certificate-authority-data": b64("CA"), "extensions": [extension]}
    spec = loaded(tmp_path, document(user={"exec": plugin}, cluster=cluster)).exec_plugin
    assert spec is not None
    assert (spec.command, spec.args, spec.env) == (str(tmp_path / "bin/login"), ("--cluster", "7"), (("X", "1"),))
    assert spec.interactive_mode == "IfAvailable"
    assert spec.cluster_info == {
        "server": "https://a:6443",
        "certificate-authority-data": b64("CA"),
        "config": {"audience": "a"},
    }


_V1 = {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("a: [", "is not YAML"),
        ("- 1", "is not a kubeconfig"),
        ({"kind": "Pod"}, "is not a kubeconfig"),
        ({}, "no current context; known contexts: none"),
        ({**document(), "current-context": "z"}, "there is no context 'z'; there are: a"),
        ({**document(), "clusters": []}, "there is no cluster 'a'; there are: none"),
        ({**document(), "users": []}, "there is no user 'a'"),
        ({**document(), "clusters": ["a"]}, "an entry of clusters is not a mapping"),
        (document(cluster={"server": "a:6443"}), "is not an http or https URL"),
        (document(cluster={"server": "https://a:port"}), "cannot be parsed"),
        (document(cluster={"certificate-authority-data": "!"}), "certificate-authority-data is not base64"),
        (
            document(cluster={"certificate-authority": "x", "insecure-skip-tls-verify": True}),
            "root certificates file with the insecure flag is not allowed",
        ),
        (document(user={"client-certificate": "x"}), "must be given together"),
        (document(user={"username": "x"}), "basic authentication is no longer supported"),
        (document(user={"auth-provider": {"name": "gcp"}}), "auth-provider, which is no longer supported"),
        (document(user={"as-groups": ["x"]}), "without impersonating a user"),
        (document(user={"exec": {"apiVersion": _V1["apiVersion"]}}), "no command"),
        (document(user={"exec": {**_V1, "apiVersion": "v1"}}), "apiVersion is 'v1'"),
        (document(user={"exec": _V1}), "interactiveMode is missing"),
        (document(user={"exec": {**_V1, "interactiveMode": "Maybe"}}), "interactiveMode is 'Maybe'"),
    ],
)
def test_invalid_kubeconfig_is_reported(tmp_path: Path, content: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        loaded(tmp_path, content)


def test_explicit_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "none")


def test_missing_configuration_lists_the_searched_places(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none of .*\.kube/config exists, and this is not a pod"):
        load_config(environ={"HOME": str(tmp_path)})
