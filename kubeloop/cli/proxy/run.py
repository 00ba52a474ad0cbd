# SPDX-License-Identifier: Apache-2.0
"""`kubeloop proxy`: the service proxy against any API server, in place of kube-proxy.

flags, file ─▶ kernel settings ─▶ nftables ─▶ the Node ─▶ proxiers; health and metrics at their ports
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from kubeloop.apiserver.server import StartupError
from kubeloop.cli.flags.values import flag_values
from kubeloop.cli.program.foreground import run_in_foreground
from kubeloop.cli.proxy.flags import ProxyOptions, proxy_options_of
from kubeloop.cli.proxy.program import ProxyProgram
from kubeloop.cli.proxy.startup import prepare_kernel
from kubeloop.clock import SystemClock
from kubeloop.nftables import NftablesError
from kubeloop.nftables.library import open_nftables
from kubeloop.proxy.config.configuration import KubeProxyConfiguration
from kubeloop.proxy.ip_family import IP_FAMILIES
from kubeloop.proxy.kernel.settings import KernelSettingsError
from kubeloop.proxy.rules.scripts import delete_table_script
from kubeloop.runtime.component_config import ComponentConfigError, plain_of


def run_proxy(flags: argparse.Namespace) -> int:
    """Run the proxy; returns the exit code."""
    started: list[ProxyProgram] = []

    async def start() -> ProxyProgram:
        if isinstance(options, ComponentConfigError):
            raise StartupError(str(options))
        program = ProxyProgram(options, flag_values(flags), SystemClock())
        await program.start()
        started.append(program)
        return program

    options = _load(flags)
    if isinstance(options, ProxyOptions):
        if options.write_config_to is not None:
            return _write_config(options)
        if options.cleanup or options.init_only:
            return asyncio.run(_run_once(options))
    logs = options.config.logging if isinstance(options, ProxyOptions) else KubeProxyConfiguration().logging
    code = run_in_foreground(start, logging_format=logs.format, verbosity=logs.verbosity)
    return code or int(any(program.has_failed for program in started))


def _load(flags: argparse.Namespace) -> ProxyOptions | ComponentConfigError:
    try:
        return proxy_options_of(flags)
    except ComponentConfigError as error:
        return error


def _write_config(options: ProxyOptions) -> int:
    assert options.write_config_to is not None
    options.write_config_to.write_bytes(msgspec.yaml.encode(plain_of(KubeProxyConfiguration())))
    return 0


async def _run_once(options: ProxyOptions) -> int:
    """Delete the tables, or make the settings that need all privileges; returns the exit code."""
    try:
        nftables = await open_nftables()
        try:
            if options.cleanup:
                for family in IP_FAMILIES:
                    await nftables.run(delete_table_script(family))
            else:
                prepare_kernel(options.config)
        finally:
            await nftables.close()
    except (NftablesError, KernelSettingsError) as error:
        print(f"kubeloop: {error}", file=sys.stderr)
        return 1
    return 0
