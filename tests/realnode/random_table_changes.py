# SPDX-License-Identifier: Apache-2.0
"""Applies random changes of Services to a kernel's table, and compares it with a table written at once.

unshare --net python -m tests.realnode.random_table_changes SEED    prints the steps, fails at the first difference
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import Any

from kubeloop.nftables.library import open_nftables
from kubeloop.proxy.ip_family import IPV4, IPV6
from kubeloop.proxy.node_addresses import NO_DETECTOR, nodeport_addresses
from kubeloop.proxy.rules.scripts import changes_script, stale_chains_script, table_script
from kubeloop.proxy.rules.settings import TableSettings
from kubeloop.proxy.service_port import ServicePortInfo
from tests.unit.proxy.objects import TableBuilder, endpoints, port_name

_STEPS = 60


def address(family: Any, prefix: int, number: int) -> str:
    return f"10.{prefix}.0.{number}" if family is IPV4 else f"fd{prefix:02x}::{number}"


def random_port(chance: random.Random, family: Any) -> ServicePortInfo:
    ranges = (
        (),
        (
            f"{address(family, 50, 0)}/{24 if family is IPV4 else 64}",
            f"{address(family, 51, 1)}/{32 if family is IPV4 else 128}",
        ),
    )
    return ServicePortInfo(
        cluster_ip=address(family, 96, chance.randint(1, 4)),
        port=chance.choice([80, 443]),
        protocol=chance.choice(["TCP", "UDP", "SCTP"]),
        node_port=chance.choice([0, 30001, 30002]),
        external_ips=tuple(address(family, 60, one) for one in range(chance.randint(0, 2))),
        load_balancer_vips=(address(family, 61, 1),) if chance.random() < 0.4 else (),
        source_ranges=chance.choice(ranges),
        affinity_seconds=chance.choice([0, 0, 60, 7200]),
        external_policy_local=chance.random() < 0.5,
        internal_policy_local=chance.random() < 0.3,
    )


def random_endpoints(chance: random.Random, family: Any) -> list[Any]:
    hosts = chance.sample(range(1, 6), chance.randint(0, 5))
    rows = endpoints(*sorted(hosts), local=tuple(hosts[:2]))
    return [type(one)(address(family, 44, number), one.port, one.is_local) for number, one in enumerate(rows, 1)]


async def contents(nftables: Any, family: Any) -> Any:
    """Return the kernel's table without handles, in a fixed order."""
    process = await asyncio.create_subprocess_exec(
        "nft", "-j", "list", "table", family.nft, "kube-proxy", stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return sorted(
        json.dumps(plain(one), sort_keys=True) for one in json.loads(output)["nftables"] if "metainfo" not in one
    )


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        found = {key: plain(one) for key, one in value.items() if key != "handle"}
        if isinstance(found.get("elem"), list):
            found["elem"] = sorted(found["elem"], key=lambda one: json.dumps(one, sort_keys=True))
        return found
    return [plain(one) for one in value] if isinstance(value, list) else value


async def run(seed: int, family: Any) -> None:
    chance = random.Random(seed)
    nftables = await open_nftables()
    settings = TableSettings(family, detector=NO_DETECTOR, nodeport_addresses=nodeport_addresses([], family))
    builder, latest = TableBuilder(settings), {}
    builder.table.take_changes()
    await nftables.run(table_script(builder.table, {}))
    for _ in range(_STEPS):
        for _ in range(chance.randint(1, 3)):
            name = chance.choice("abcd")
            for protocol in [one for one in ("TCP", "UDP", "SCTP") if (name, one) in latest]:
                latest.pop((name, protocol))
                builder.table.set_port(port_name(name, protocol), None)
            if chance.random() < 0.8:
                port, rows = random_port(chance, family), random_endpoints(chance, family)
                latest[name, port.protocol] = (port, rows)
                builder.add(name, port, rows)
        changes = builder.table.take_changes()
        if changes:
            await nftables.run(changes_script(settings, changes))
            await nftables.run(stale_chains_script(family, changes.deleted_chains))
    incremental = await contents(nftables, family)
    fresh = TableBuilder(settings)
    for (name, _), (port, rows) in latest.items():
        fresh.add(name, port, rows)
    await nftables.run(table_script(fresh.table, {}))
    assert incremental == await contents(nftables, family), f"seed {seed}, {family}"
    await nftables.close()


if __name__ == "__main__":
    for one in (IPV4, IPV6):
        asyncio.run(run(int(sys.argv[1]), one))
