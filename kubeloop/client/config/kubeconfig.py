# SPDX-License-Identifier: Apache-2.0
"""kubeconfig files: merges several, resolves a context, and reports every fault in one sentence."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kubeloop.client.config.server_config import (
    DEFAULT_NAMESPACE,
    ExecConfig,
    ImpersonationConfig,
    Pem,
    ServerConfig,
)
from kubeloop.client.errors import ConfigError

_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_EXEC_GROUP = "client.authentication.k8s.io"
_EXEC_VERSIONS = (f"{_EXEC_GROUP}/v1", f"{_EXEC_GROUP}/v1beta1")
_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


def load_files(files: Sequence[Path], context: str = "", *, must_exist: bool = False) -> ServerConfig:
    """Load a context (default: the current one) from files; earlier files take precedence."""
    documents = [(file, read_file(file)) for file in files if must_exist or file.exists()]
    return resolve(merge(documents), context, ", ".join(str(file) for file, _ in documents))


def read_file(path: Path) -> Mapping[str, Any]:
    """Read one file as plain data."""
    import yaml

    try:
        document = yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise ConfigError(f"the kubeconfig {path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"the kubeconfig {path} is not YAML: {error}") from None
    if document is None:
        return {}
    if not isinstance(document, dict) or document.get("kind", "Config") != "Config":
        raise ConfigError(f"{path} is not a kubeconfig")
    return document


def merge(documents: Sequence[tuple[Path, Mapping[str, Any]]]) -> dict[str, Any]:
    """Merge documents: the first to name a cluster, user, context or the current context wins.

    Relative file names are resolved from the folder of the file that contains them.
    """
    merged: dict[str, Any] = {section: {} for section in _SECTIONS}
    for path, document in documents:
        for section, part in _SECTIONS.items():
            entries = document.get(section) or []
            if not isinstance(entries, list):
                raise ConfigError(f"{path}: {section} is not a list")
            for entry in entries:
                if not isinstance(entry, dict) or not isinstance(entry.get(part) or {}, dict):
                    raise ConfigError(f"{path}: an entry of {section} is not a mapping with a name and a {part}")
                found = _with_absolute_paths(entry.get(part) or {}, path.parent)
                merged[section].setdefault(str(entry.get("name", "")), found)
        if document.get("current-context"):
            merged.setdefault("current-context", document["current-context"])
    return merged


def _with_absolute_paths(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    resolved = dict(entry)
    for key in ("certificate-authority", "client-certificate", "client-key", "tokenFile"):
        if entry.get(key):
            resolved[key] = str(folder / entry[key])
    plugin = entry.get("exec")
    # A command without a slash is looked for in $PATH.
    if isinstance(plugin, dict) and os.sep in str(plugin.get("command", "")):
        resolved["exec"] = {**plugin, "command": str(folder / plugin["command"])}
    return resolved


def resolve(merged: Mapping[str, Any], context: str, source: str) -> ServerConfig:
    """Return the server configuration of a context in a merged document."""
    name = context or merged.get("current-context", "")
    if not name:
        known = ", ".join(sorted(merged["contexts"])) or "none"
        raise ConfigError(f"{source}: no current context; known contexts: {known}")
    chosen = _entry(merged, "contexts", name, source)
    cluster = _entry(merged, "clusters", chosen.get("cluster", ""), source)
    user = _entry(merged, "users", chosen["user"], source) if chosen.get("user") else {}
    for gone in ("username", "password"):
        if user.get(gone):
            raise ConfigError(
                f"{source}: user {chosen['user']!r} has a {gone}; basic authentication is no longer supported"
            )
    if user.get("auth-provider"):
        raise ConfigError(
            f"{source}: user {chosen['user']!r} has an auth-provider, which is no longer supported; use exec instead"
        )
    try:
        return _config(chosen, cluster, user)
    except ConfigError as error:
        raise ConfigError(f"{source}: context {name!r}: {error}") from None


def _entry(merged: Mapping[str, Any], section: str, name: str, source: str) -> Mapping[str, Any]:
    found = merged[section].get(name)
    if found is None:
        known = ", ".join(sorted(merged[section])) or "none"
        raise ConfigError(f"{source}: there is no {_SECTIONS[section]} {name!r}; there are: {known}")
    entry: Mapping[str, Any] = found
    return entry


def _config(context: Mapping[str, Any], cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ServerConfig:
    plugin = user.get("exec")
    authority = _pem(cluster, "certificate-authority")
    insecure = bool(cluster.get("insecure-skip-tls-verify"))
    return ServerConfig(
        server=str(cluster.get("server", "")),
        authority=authority,
        server_name=cluster.get("tls-server-name") or "",
        insecure=insecure,
        proxy_url=cluster.get("proxy-url") or "",
        compression=not cluster.get("disable-compression"),
        namespace=context.get("namespace") or DEFAULT_NAMESPACE,
        certificate=_pem(user, "client-certificate"),
        key=_pem(user, "client-key"),
        token=user.get("token") or "",
        token_file=user.get("tokenFile") or "",
        exec_plugin=_exec_spec(plugin, cluster) if plugin else None,
        impersonation=_impersonation(user),
    )


def _pem(entry: Mapping[str, Any], key: str) -> Pem:
    data = entry.get(f"{key}-data")
    if not data:
        return Pem(file=entry.get(key) or "")
    try:
        return Pem(data=base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError, TypeError):
        raise ConfigError(f"{key}-data is not base64") from None


def _impersonation(user: Mapping[str, Any]) -> ImpersonationConfig:
    return ImpersonationConfig(
        user.get("as") or "",
        user.get("as-uid") or "",
        tuple(user.get("as-groups") or ()),
        {key: tuple(values) for key, values in (user.get("as-user-extra") or {}).items()},
    )


def _exec_spec(plugin: Mapping[str, Any], cluster: Mapping[str, Any]) -> ExecConfig:
    version = plugin.get("apiVersion") or ""
    if not plugin.get("command"):
        raise ConfigError("the exec plugin has no command")
    if version not in _EXEC_VERSIONS:
        raise ConfigError(f"the exec plugin's apiVersion is {version!r}; known are {' and '.join(_EXEC_VERSIONS)}")
    mode = plugin.get("interactiveMode") or ("IfAvailable" if version.endswith("beta1") else "")
    if mode not in _INTERACTIVE_MODES:
        said = f"is {mode!r}" if mode else "is missing"
        raise ConfigError(f"the exec plugin's interactiveMode {said}; it is one of {', '.join(_INTERACTIVE_MODES)}")
    return ExecConfig(
        command=plugin["command"],
        api_version=version,
        args=tuple(map(str, plugin.get("args") or ())),
        env=tuple((one["name"], str(one.get("value", ""))) for one in plugin.get("env") or ()),
        install_hint=plugin.get("installHint") or "",
        provide_cluster_info=bool(plugin.get("provideClusterInfo")),
        interactive_mode=mode,
        cluster_info=_cluster_info(cluster),
    )


def _cluster_info(cluster: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cluster information for plugins with provideClusterInfo."""
    ca = cluster.get("certificate-authority-data") or ""
    if not ca and cluster.get("certificate-authority"):
        try:
            ca = base64.b64encode(Path(cluster["certificate-authority"]).read_bytes()).decode()
        except OSError as error:
            raise ConfigError(f"{cluster['certificate-authority']} cannot be read: {error.strerror}") from None
    extensions = {one.get("name"): one.get("extension") for one in cluster.get("extensions") or ()}
    info = {
        "server": cluster.get("server"),
        "tls-server-name": cluster.get("tls-server-name"),
        "insecure-skip-tls-verify": cluster.get("insecure-skip-tls-verify"),
        "certificate-authority-data": ca,
        "proxy-url": cluster.get("proxy-url"),
        "disable-compression": cluster.get("disable-compression"),
        "config": extensions.get(_EXEC_EXTENSION),
    }
    return {key: value for key, value in info.items() if value}
