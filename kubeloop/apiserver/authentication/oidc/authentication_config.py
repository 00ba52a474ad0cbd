# SPDX-License-Identifier: Apache-2.0
"""Structured authentication: builds JWT authenticators from configuration, and rebuilds them when its file changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldPath, aggregate, quote
from kubeloop.apiserver.authentication.oidc.authenticator import IssuerAuthenticator, JWTAuthenticators
from kubeloop.apiserver.authentication.oidc.configuration import (
    AuthenticationConfiguration,
    JWTAuthenticatorConfig,
    parse_authentication_configuration,
)
from kubeloop.apiserver.authentication.oidc.keys import ALGORITHMS
from kubeloop.apiserver.authentication.oidc.validation import configuration_errors
from kubeloop.apiserver.background.file_reloader import Contents, RetryReload
from kubeloop.apiserver.config_file import ConfigFileError
from kubeloop.clock import Clock

_HEALTHY_SECONDS: Final = 60.0


class StructuredAuthenticationConfig(NamedTuple):
    """Valid configuration, and the algorithms that tokens may be signed with."""

    configuration: AuthenticationConfiguration
    algorithms: tuple[str, ...] = ALGORITHMS


def read_authentication_file(path: Path, disallowed_issuers: Sequence[str]) -> StructuredAuthenticationConfig:
    """Read and validate a file; raises ConfigFileError."""
    try:
        configuration = parse_authentication_configuration(path.read_bytes())
    except (ConfigFileError, OSError) as error:
        told = f"failed to load authentication configuration from file {quote(str(path))}: {error}"
        raise ConfigFileError(told) from None
    validate(configuration, disallowed_issuers)
    return StructuredAuthenticationConfig(configuration)


def authentication_of_flags(
    jwt: JWTAuthenticatorConfig, algorithms: Sequence[str], disallowed_issuers: Sequence[str]
) -> StructuredAuthenticationConfig:
    """Validate the configuration that flags stand for; raises ConfigFileError."""
    configuration = AuthenticationConfiguration(jwt=(jwt,))
    validate(configuration, disallowed_issuers)
    for algorithm in algorithms:
        if algorithm not in ALGORITHMS:
            raise ConfigFileError(f"oidc: unsupported signing alg: {quote(algorithm)}")
    return StructuredAuthenticationConfig(configuration, tuple(algorithms))


def validate(configuration: AuthenticationConfiguration, disallowed_issuers: Sequence[str]) -> None:
    """Raise ConfigFileError for an invalid configuration."""
    problems = configuration_errors(configuration, disallowed_issuers)
    if problems:
        told = aggregate(str(one) for one in problems)
        raise ConfigFileError(f"invalid authentication configuration: {told}")


class StructuredAuthentication:
    """JWT authenticators of a configuration; `reload` replaces them by those of a changed file."""

    def __init__(
        self,
        config: StructuredAuthenticationConfig,
        audiences: Sequence[str],
        disallowed_issuers: Sequence[str],
        clock: Clock,
    ) -> None:
        self._config = config
        self._disallowed_issuers = tuple(disallowed_issuers)
        self._clock = clock
        self.authenticators = JWTAuthenticators(self._build(config.configuration), audiences)

    async def reload(self, contents: Contents) -> None:
        """Use a changed file as soon as its issuers have been discovered.

        Raises ConfigFileError for a file that will never be valid, RetryReload for issuers that cannot be reached.
        """
        configuration = parse_authentication_configuration(contents[0])
        validate(configuration, self._disallowed_issuers)
        if configuration.anonymous != self._config.configuration.anonymous:
            problem = field_path.forbidden(FieldPath("anonymous"), "changed from initial configuration file")
            raise ConfigFileError(f"invalid authentication configuration: {problem}")
        built = self._build(configuration)
        for one in built:
            one.start()
        try:
            async with asyncio.timeout(_HEALTHY_SECONDS):
                await asyncio.gather(*(one.wait_discovered() for one in built))
        except BaseException as error:
            for one in built:
                one.close()
            if isinstance(error, TimeoutError):
                problems = [one.problem for one in built if one.problem]
                raise RetryReload(aggregate([*problems, "context deadline exceeded"])) from None
            raise
        self.authenticators.replace(built)

    def _build(self, configuration: AuthenticationConfiguration) -> list[IssuerAuthenticator]:
        return [IssuerAuthenticator(one, self._config.algorithms, self._clock) for one in configuration.jwt]
