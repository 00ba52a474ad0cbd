# SPDX-License-Identifier: Apache-2.0
"""Finds providers by name: built-in ones, and installed ones by entry point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points

from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.cloud.provider import CloudProvider
from kubeloop.runtime.informer.informer import SharedInformerFactory

GROUP = "kubeloop.cloud_providers"
# Imported on demand: a provider's library may be slow or missing.
BUILT_IN = {"local": "kubeloop.cloud.local", "aws": "kubeloop.cloud.aws"}


@dataclass(frozen=True, slots=True)
class ProviderDependencies:
    """Dependencies of a provider; its informers start with the controllers."""

    client: Client
    informers: SharedInformerFactory
    clock: Clock
    config_file: str = ""  # value of --cloud-config


# Type of the function `make` in a provider's module, and of the entry points.
Make = Callable[[ProviderDependencies], CloudProvider]


class InvalidProvider(ValueError):
    """Raised if a provider is unavailable; the message is one sentence for the user."""


def load(name: str, around: ProviderDependencies) -> CloudProvider:
    """Load a provider by name; raises `InvalidProvider`."""
    make = _make(name)
    try:
        return make(around)
    except InvalidProvider as error:
        raise InvalidProvider(f"--cloud-provider {name}: {error}") from None
    except Exception as error:
        raise InvalidProvider(f"--cloud-provider {name}: {type(error).__name__}: {error}") from error


def _make(name: str) -> Make:
    if not name:
        raise InvalidProvider("--cloud-provider cannot be empty")
    if name in BUILT_IN:
        built_in: Make = import_module(BUILT_IN[name]).make
        return built_in
    found = {one.name: one for one in entry_points(group=GROUP)}
    if name not in found:
        known = ", ".join(sorted({*BUILT_IN, *found}))
        raise InvalidProvider(f'unknown cloud provider "{name}"; there are: {known}')
    try:
        loaded: Make = found[name].load()
    except Exception as error:
        raise InvalidProvider(f"--cloud-provider {name}: {type(error).__name__}: {error}") from error
    return loaded
