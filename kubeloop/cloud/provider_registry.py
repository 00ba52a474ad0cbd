"""Providers by name: those that come with us, and those that are installed beside us, found by entry point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points

from kubeloop.client import Client
from kubeloop.clock import Clock
from kubeloop.cloud.provider import Provider
from kubeloop.runtime.informer.informer import Informers

GROUP = "kubeloop.cloud_providers"
# Imported when asked for: a provider's library may take long, or not be installed.
BUILT_IN = {"local": "kubeloop.cloud.local", "aws": "kubeloop.cloud.aws"}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a provider may use. Its informers start with the loops."""

    client: Client
    informers: Informers
    clock: Clock
    config_file: str = ""  # what --cloud-config says


# What a provider's module has under the name `make`, and what an entry point leads to.
Make = Callable[[Surroundings], Provider]


class UnusableProvider(ValueError):
    """A provider cannot be had; the message is one sentence for a person."""


def load(name: str, around: Surroundings) -> Provider:
    """The provider of a name. Raises `UnusableProvider` for one that can't be had."""
    make = _make(name)
    try:
        return make(around)
    except UnusableProvider as error:
        raise UnusableProvider(f"--cloud-provider {name}: {error}") from None
    except Exception as error:
        raise UnusableProvider(f"--cloud-provider {name}: {type(error).__name__}: {error}") from error


def _make(name: str) -> Make:
    if not name:
        raise UnusableProvider("--cloud-provider cannot be empty")
    if name in BUILT_IN:
        built_in: Make = import_module(BUILT_IN[name]).make
        return built_in
    found = {one.name: one for one in entry_points(group=GROUP)}
    if name not in found:
        known = ", ".join(sorted({*BUILT_IN, *found}))
        raise UnusableProvider(f'unknown cloud provider "{name}"; there are: {known}')
    try:
        loaded: Make = found[name].load()
    except Exception as error:
        raise UnusableProvider(f"--cloud-provider {name}: {type(error).__name__}: {error}") from error
    return loaded
