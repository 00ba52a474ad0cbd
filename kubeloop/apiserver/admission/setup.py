# SPDX-License-Identifier: Apache-2.0
"""Setup of admission from flags: enabled plugins, their configurations, and what optional plugins need.

Without flags nothing is read, and no module of an optional plugin is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kubeloop.api.features.gates import DEFAULT_FEATURES, Features
from kubeloop.api.generated.core_v1 import Namespace
from kubeloop.api.generated.meta_v1 import ObjectMeta
from kubeloop.api.kinds import Resource
from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.admission import Lookup
from kubeloop.apiserver.admission.plugin_names import (
    DEFAULT_PLUGINS,
    AdmissionConfigError,
    AdmissionOptions,
    select_plugins,
)
from kubeloop.apiserver.bootstrap.writer import BootstrapWriter
from kubeloop.apiserver.registry.storage import StorageRegistry
from kubeloop.apiserver.request.run_options import DEFAULT_RUN_OPTIONS, ServerRunOptions
from kubeloop.clock import Clock, SystemClock
from kubeloop.metrics import MetricRegistry

if TYPE_CHECKING:
    from kubeloop.apiserver.admission.configuration import PluginConfigurations
    from kubeloop.apiserver.admission.plugins.image_policy_webhook import ImagePolicyWebhook
    from kubeloop.apiserver.admission.plugins.namespace_existence import NamespaceWriter
    from kubeloop.apiserver.admission.plugins.quota.quota_accessor import QuotaAccessor
    from kubeloop.apiserver.authorization import UnionAuthorizer
    from kubeloop.apiserver.webhook_client.credentials import WebhookUsers
    from kubeloop.apiserver.webhook_client.review_client import KubeconfigReader

T = TypeVar("T", bound=msgspec.Struct)

_NO_READER = "a webhook needs a reader of kubeconfig files"


def _nothing_served() -> Iterable[Resource]:
    return ()


@dataclass(frozen=True, slots=True)
class AdmissionSetup:
    """Enabled plugins with their configurations, and the collaborators of optional plugins."""

    enabled: frozenset[str] = DEFAULT_PLUGINS
    configurations: PluginConfigurations | None = None  # None if no plugin is configured
    clock: Clock = field(default_factory=SystemClock)
    served: Callable[[], Iterable[Resource]] = _nothing_served
    namespaces: NamespaceWriter | None = None
    image_policy: ImagePolicyWebhook | None = None
    webhook_users: Mapping[str, WebhookUsers] = field(default_factory=dict)  # by webhook plugin
    run_options: ServerRunOptions = DEFAULT_RUN_OPTIONS

    def configuration(self, plugin: str, kind: type[T]) -> T:
        """Return the configuration of a plugin; its default if there is none."""
        return self.configurations.get(plugin, kind) if self.configurations is not None else kind()


@dataclass(frozen=True, slots=True)
class PluginContext:
    """Collaborators of plugins (upstream's plugin initializer)."""

    lookup: Lookup
    ledger: QuotaAccessor
    authorizer: UnionAuthorizer | None = None
    features: Features = DEFAULT_FEATURES
    setup: AdmissionSetup = field(default_factory=AdmissionSetup)
    metrics: MetricRegistry = field(default_factory=MetricRegistry)


class RegistryNamespaceWriter:
    """Creates namespaces in a server's own store, without admission."""

    def __init__(self, registry: StorageRegistry, writer: BootstrapWriter) -> None:
        self._registry = registry
        self._writer = writer

    async def ensure_namespace(self, name: str) -> None:
        """Create a namespace and wait until it is durable; one that exists is left alone."""
        resource = self._registry.storage_named("", "v1", "namespaces").resource
        await self._writer.ensure([(resource, Namespace(metadata=ObjectMeta(name=name)))])


def set_up_admission(
    options: AdmissionOptions,
    registry: StorageRegistry,
    clock: Clock,
    writer: BootstrapWriter,
    kubeconfigs: KubeconfigReader | None = None,
) -> AdmissionSetup:
    """Read and validate the configuration of the enabled plugins; raises `AdmissionConfigError`."""
    enabled = select_plugins(options)
    if options == AdmissionOptions():
        return AdmissionSetup(clock=clock)
    try:
        configurations = _read_configurations(options, enabled)
        return AdmissionSetup(
            enabled,
            configurations,
            clock,
            lambda: [storage.resource for storage in registry.storages()],
            RegistryNamespaceWriter(registry, writer),
            _image_policy(configurations, clock, kubeconfigs) if "ImagePolicyWebhook" in enabled else None,
            _webhook_users(configurations, kubeconfigs),
        )
    except AdmissionConfigError as error:
        raise AdmissionConfigError(f"failed to apply admission: {error}") from None


def _read_configurations(options: AdmissionOptions, enabled: frozenset[str]) -> PluginConfigurations:
    from kubeloop.apiserver.admission.configuration import read_plugin_configurations

    return read_plugin_configurations(options.config_file, enabled)


def _webhook_users(
    configurations: PluginConfigurations, kubeconfigs: KubeconfigReader | None
) -> dict[str, WebhookUsers]:
    from kubeloop.apiserver.admission.configuration import WebhookAdmissionConfiguration

    found: dict[str, WebhookUsers] = {}
    for plugin in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"):
        path = configurations.get(plugin, WebhookAdmissionConfiguration).kube_config_file
        if path:
            assert kubeconfigs is not None, _NO_READER
            try:
                found[plugin] = kubeconfigs.users(Path(path))
            except ValueError as error:
                raise AdmissionConfigError(f"couldn't init admission plugin {quote(plugin)}: {error}") from None
    return found


def _image_policy(
    configurations: PluginConfigurations, clock: Clock, kubeconfigs: KubeconfigReader | None
) -> ImagePolicyWebhook:
    from kubeloop.apiserver.admission.plugins.image_policy_webhook import (
        ImagePolicyWebhook,
        ImagePolicyWebhookConfiguration,
    )

    assert kubeconfigs is not None, _NO_READER
    config = configurations.get("ImagePolicyWebhook", ImagePolicyWebhookConfiguration).image_policy
    try:
        return ImagePolicyWebhook(config, kubeconfigs.endpoint(Path(config.kube_config_file)), clock)
    except ValueError as error:
        raise AdmissionConfigError(f'couldn\'t init admission plugin "ImagePolicyWebhook": {error}') from None
