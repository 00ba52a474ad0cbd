# SPDX-License-Identifier: Apache-2.0
"""AdmissionConfiguration files: parsed, and the configuration of each plugin validated with upstream's messages.

--admission-control-config-file ─▶ AdmissionConfiguration ─▶ embedded or referenced file of each plugin ─▶ typed
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kubeloop.api.meta.field_path import FieldError, FieldPath, forbidden, invalid, quote
from kubeloop.apiserver.admission.plugin_names import AdmissionConfigError
from kubeloop.apiserver.admission.plugins.event_rate_limit import EventRateLimitConfiguration
from kubeloop.apiserver.admission.plugins.image_policy_webhook import ImagePolicyWebhookConfiguration
from kubeloop.apiserver.admission.plugins.pod_security.configuration import PodSecurityConfiguration
from kubeloop.apiserver.admission.plugins.pods.pod_node_selector import PodNodeSelectorConfiguration
from kubeloop.apiserver.admission.plugins.pods.pod_toleration_restriction import PodTolerationRestrictionConfiguration
from kubeloop.apiserver.admission.plugins.quota.resource_quota import ResourceQuotaConfiguration

T = TypeVar("T", bound=msgspec.Struct)

_GROUP = "apiserver.config.k8s.io/v1"
_ADMISSION_VERSIONS = (_GROUP, "apiserver.k8s.io/v1alpha1")
_LEGACY = {"imagePolicy": "ImagePolicyWebhook", "podNodeSelectorPluginConfig": "PodNodeSelector"}


class _InitializationError(AdmissionConfigError):
    """Error that upstream finds after a plugin was made."""


class AdmissionPluginConfiguration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration of one plugin: embedded, or in a file of its own."""

    name: str = ""
    path: str = ""
    configuration: Any = None


class AdmissionConfiguration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Configurations of several plugins."""

    kind: str = ""
    api_version: str = ""
    plugins: tuple[AdmissionPluginConfiguration, ...] = ()


class WebhookAdmissionConfiguration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Configuration of the webhook plugins: the kubeconfig with credentials for webhooks."""

    kind: str = ""
    api_version: str = ""
    kube_config_file: str = ""
    static_manifests_dir: str = ""

    def validate(self) -> Iterator[FieldError]:
        """Yield the errors of the configuration."""
        if self.kube_config_file and not Path(self.kube_config_file).is_absolute():
            yield invalid(FieldPath("kubeConfigFile"), self.kube_config_file, "must be an absolute file path")
        if self.static_manifests_dir:
            yield forbidden(FieldPath("staticManifestsDir"), "static manifests are not supported")


# Type, and the API versions and kinds that a document may have; the legacy formats have none.
_KINDS: Mapping[str, tuple[type[msgspec.Struct], tuple[tuple[str, str], ...]]] = {
    "EventRateLimit": (
        EventRateLimitConfiguration,
        (("eventratelimit.admission.k8s.io/v1alpha1", "Configuration"),),
    ),
    "ImagePolicyWebhook": (ImagePolicyWebhookConfiguration, ()),
    "MutatingAdmissionWebhook": (WebhookAdmissionConfiguration, ((_GROUP, "WebhookAdmissionConfiguration"),)),
    "PodNodeSelector": (PodNodeSelectorConfiguration, ()),
    "PodSecurity": (
        PodSecurityConfiguration,
        tuple(
            (f"pod-security.admission.config.k8s.io/{version}", "PodSecurityConfiguration")
            for version in ("v1", "v1beta1", "v1alpha1")
        ),
    ),
    "PodTolerationRestriction": (
        PodTolerationRestrictionConfiguration,
        (("podtolerationrestriction.admission.k8s.io/v1alpha1", "Configuration"),),
    ),
    "ResourceQuota": (
        ResourceQuotaConfiguration,
        (
            (_GROUP, "ResourceQuotaConfiguration"),
            ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
            ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
        ),
    ),
    "ValidatingAdmissionWebhook": (WebhookAdmissionConfiguration, ((_GROUP, "WebhookAdmissionConfiguration"),)),
}
_UNKNOWN_FIELD = re.compile(r"Object contains unknown field `([^`]*)`(?: - at `\$\.([^`]*)`)?")
_REQUIRED = ("EventRateLimit", "ImagePolicyWebhook")


class PluginConfigurations:
    """Valid configurations of the enabled plugins, by plugin name."""

    def __init__(self, found: Mapping[str, msgspec.Struct]) -> None:
        self._found = found

    def get(self, plugin: str, kind: type[T]) -> T:
        """Return the configuration of a plugin; its default if there is none."""
        found = self._found.get(plugin)
        return found if isinstance(found, kind) else kind()


def read_plugin_configurations(path: Path | None, enabled: frozenset[str]) -> PluginConfigurations:
    """Read and validate the configurations of all enabled plugins; raises `AdmissionConfigError`."""
    documents = dict(_documents(path)) if path is not None else {}
    found: dict[str, msgspec.Struct] = {}
    for name, (kind, versions) in _KINDS.items():
        if name not in enabled or (name not in documents and name not in _REQUIRED):
            continue
        try:
            if name in documents:
                found[name] = _decode(documents[name], kind, versions)
            elif name == "ImagePolicyWebhook":
                raise AdmissionConfigError("no config specified")
            _raise_invalid(name, found.get(name) or kind())
        except AdmissionConfigError as error:
            begin = "failed to initialize" if isinstance(error, _InitializationError) else "couldn't init"
            raise AdmissionConfigError(f"{begin} admission plugin {quote(name)}: {error}") from None
    return PluginConfigurations(found)


def _documents(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the plugins that a file configures, with their documents; the first of several counts."""
    try:
        text = path.read_text()
    except OSError as error:
        raise AdmissionConfigError(
            f"failed to read plugin config: unable to read admission control configuration from {quote(str(path))} "
            f"[open {path}: {(error.strerror or '').lower()}]"
        ) from None
    document = _parse(text)
    if not document.get("kind") and not _LEGACY.keys().isdisjoint(document):
        yield from ((plugin, document) for plugin in _LEGACY.values())
        return
    try:
        config = _decode(
            document,
            AdmissionConfiguration,
            tuple((version, "AdmissionConfiguration") for version in _ADMISSION_VERSIONS),
        )
    except AdmissionConfigError as error:
        raise AdmissionConfigError(f"failed to read plugin config: {error}") from None
    for plugin in reversed(config.plugins):
        yield plugin.name, _document_of(plugin, path.parent)


def _document_of(plugin: AdmissionPluginConfiguration, folder: Path) -> Any:
    if plugin.configuration is not None or not plugin.path:
        return plugin.configuration
    file = folder / plugin.path
    try:
        return _parse(file.read_text())
    except OSError as error:
        raise AdmissionConfigError(
            f"Couldn't open admission plugin configuration {file}: {(error.strerror or '').lower()}"
        ) from None


def _parse(text: str) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise AdmissionConfigError(f"failed to read plugin config: {error}") from None
    return document if isinstance(document, dict) else {}


def _decode(document: Any, kind: type[T], versions: tuple[tuple[str, str], ...]) -> T:
    document = document or {}
    if versions:
        version, name = str(document.get("apiVersion") or ""), str(document.get("kind") or "")
        if not name:
            raise AdmissionConfigError("Object 'Kind' is missing")
        if not version:
            raise AdmissionConfigError("Object 'apiVersion' is missing")
        if (version, name) not in versions:
            raise AdmissionConfigError(f"no kind {quote(name)} is registered for version {quote(version)}")
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise AdmissionConfigError(_decoding_error(str(error))) from None


def _decoding_error(text: str) -> str:
    """Word msgspec's message about an unknown field as upstream's strict decoder does."""
    match = _UNKNOWN_FIELD.match(text)
    if match is None:
        return f"strict decoding error: {text}"
    where = f"{match[2]}." if match[2] else ""
    return f"strict decoding error: unknown field {quote(where + match[1])}"


def _raise_invalid(plugin: str, config: Any) -> None:
    found: list[FieldError] = list(config.validate()) if hasattr(config, "validate") else []
    if not found:
        return
    problems = [error.message() for error in found]
    if plugin == "PodSecurity":
        defaults = [error for error in found if error.field.startswith("defaults.")]
        why = [f"{error.field.removeprefix('defaults.')}: {error.detail}" for error in defaults]
        raise _InitializationError(
            f"PodSecurity configuration error: {_aggregate(why)}"
            if why
            else f"PodSecurity invalid: {_aggregate(problems)}"
        )
    text = _aggregate(problems)
    if plugin == "PodTolerationRestriction":
        text = f"invalid config: [{' '.join(problems)}]"
    raise AdmissionConfigError(text)


def _aggregate(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
