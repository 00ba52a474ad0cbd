# SPDX-License-Identifier: Apache-2.0
"""Changes of a table: any sequence of changes, applied one by one, gives the table that is built from scratch."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubeloop.proxy.rules import names
from kubeloop.proxy.rules.scripts import affinity_clients, changes_script, table_script
from kubeloop.proxy.rules.table import ProxyTable, TableChanges
from kubeloop.proxy.service_port import ServicePortInfo
from tests.unit.proxy.objects import SETTINGS, TableBuilder, endpoints, port_name

PORT = ServicePortInfo("10.96.0.1", 80, "TCP")


@dataclass
class Kernel:
    """What a kernel would hold after the changes; fails if something to be deleted or changed is not there."""

    elements: dict[str, dict[str, Any]] = field(default_factory=dict)
    chains: dict[str, Any] = field(default_factory=dict)
    sets: dict[str, int] = field(default_factory=dict)

    def apply(self, changes: TableChanges) -> None:
        kept = {name: rules for name, rules in self.chains.items() if name not in changes.deleted_chains}
        unwritten = [rules for name, rules in kept.items() if name not in changes.written_chains]
        for name in changes.deleted_sets:  # the kernel refuses while a rule uses it
            assert not any(name in str(rules) for rules in unwritten)
        for container, keys in changes.deleted_elements.items():
            for key in keys:
                del self.elements[container][key]
        for container, rows in changes.added_elements.items():
            for key, value in rows:
                assert key not in self.elements.setdefault(container, {})
                self.elements[container][key] = value
        for name in changes.deleted_chains:
            del self.chains[name]
        self.chains.update(changes.written_chains)
        for name in changes.deleted_sets:
            del self.sets[name]
        for name, seconds in changes.added_sets.items():
            assert name not in self.sets
            self.sets[name] = seconds

    def contents(self) -> tuple[Any, ...]:
        return {name: rows for name, rows in self.elements.items() if rows}, self.chains, self.sets


def contents_of(table: ProxyTable) -> tuple[Any, ...]:
    elements: dict[str, dict[str, Any]] = {}
    for (container, key), value in table.elements():
        elements.setdefault(container, {})[key] = value
    return elements, dict(table.chains), dict(table.affinity_sets)


ports = st.builds(
    ServicePortInfo,
    cluster_ip=st.sampled_from(["10.96.0.1", "10.96.0.2", "10.96.0.3"]),
    port=st.sampled_from([80, 443]),
    protocol=st.sampled_from(["TCP", "UDP"]),
    node_port=st.sampled_from([0, 30001, 30002]),
    external_ips=st.sampled_from([(), ("198.51.100.1",), ("198.51.100.1", "198.51.100.2")]),
    load_balancer_vips=st.sampled_from([(), ("203.0.113.1",)]),
    source_ranges=st.sampled_from([(), ("192.0.2.0/24",), ("192.168.0.0/16", "192.0.2.0/25")]),
    affinity_seconds=st.sampled_from([0, 0, 100, 200]),
    external_policy_local=st.booleans(),
    internal_policy_local=st.booleans(),
)
steps = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "c"]),
        st.none() | ports,
        st.lists(st.integers(1, 4), unique=True, max_size=4).map(sorted),
        st.sets(st.integers(1, 4)),
        st.booleans(),
    ),
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(steps)
def test_incremental_changes_equal_a_table_built_from_scratch(changes: list[Any]) -> None:
    builder, kernel, latest = TableBuilder(), Kernel(), {}
    for name, port, hosts, local, is_synced in changes:
        # The name of a port includes its protocol, so that a Service may have two of them here.
        protocol = port.protocol if port is not None else "TCP"
        if port is None:
            latest.pop((name, protocol), None)
            builder.table.set_port(port_name(name, protocol), None)
        else:
            rows = endpoints(*hosts, local=tuple(local))
            latest[name, protocol] = (port, rows)
            builder.add(name, port, rows)
        if is_synced:
            kernel.apply(builder.table.take_changes())
    kernel.apply(builder.table.take_changes())
    fresh = TableBuilder()
    for (name, _), (port, rows) in latest.items():
        fresh.add(name, port, rows)
    assert kernel.contents() == contents_of(fresh.table)
    assert contents_of(builder.table) == contents_of(fresh.table)
    assert builder.table.lacks_internal == fresh.table.lacks_internal
    assert builder.table.lacks_external == fresh.table.lacks_external
    assert not builder.table.take_changes()


def test_change_of_one_endpoint_touches_only_its_port() -> None:
    builder = TableBuilder()
    for number in range(20):
        builder.add(f"s{number}", replace(PORT, cluster_ip=f"10.96.1.{number}"), endpoints(1, 2, 3))
    builder.table.take_changes()
    builder.add("s7", replace(PORT, cluster_ip="10.96.1.7"), endpoints(1, 2, 4))
    script = changes_script(SETTINGS, builder.table.take_changes())
    assert script.splitlines() == [
        "delete element ip kube-proxy service-endpoints-tcp { 10.96.1.7 . 80 . 2 }",
        "add element ip kube-proxy service-endpoints-tcp { 10.96.1.7 . 80 . 2 : 10.244.0.4 . 8080 }",
    ]


def test_unchanged_port_has_no_changes() -> None:
    builder = TableBuilder().add("a", PORT, endpoints(1))
    builder.table.take_changes()
    builder.add("a", PORT, endpoints(1))
    assert not builder.table.take_changes()


def test_chain_is_written_before_elements_refer_to_it_and_emptied_when_none_does() -> None:
    builder = TableBuilder()
    builder.table.take_changes()
    builder.add("a", PORT, endpoints(1))
    lines = changes_script(SETTINGS, builder.table.take_changes()).splitlines()
    chain = next(number for number, line in enumerate(lines) if line.startswith("add rule"))
    element = next(number for number, line in enumerate(lines) if "add element ip kube-proxy service-ips" in line)
    assert chain < element
    builder.table.set_port(port_name("a"), None)
    assert "flush chain ip kube-proxy endpoints-tcp-1" in changes_script(SETTINGS, builder.table.take_changes())


def test_another_affinity_timeout_creates_sets_and_rules_again() -> None:
    builder = TableBuilder().add("a", replace(PORT, affinity_seconds=10), endpoints(1, 2))
    builder.table.take_changes()
    builder.add("a", replace(PORT, affinity_seconds=20), endpoints(1, 2))
    changes = builder.table.take_changes()
    assert set(changes.deleted_sets) == set(changes.added_sets) == set(builder.table.affinity_sets)
    assert set(changes.added_sets.values()) == {20}
    assert len(changes.written_chains) == 3  # of the port and of two endpoints


def test_port_removed_and_added_with_another_timeout_writes_its_rules_again() -> None:
    builder, kernel = TableBuilder().add("a", replace(PORT, affinity_seconds=10), endpoints(1, 2)), Kernel()
    kernel.apply(builder.table.take_changes())
    builder.table.set_port(port_name("a"), None)
    builder.add("a", replace(PORT, affinity_seconds=20), endpoints(1, 2))
    changes = builder.table.take_changes()
    kernel.apply(changes)
    assert len(changes.written_chains) == 3


def test_full_script_replaces_the_table_and_keeps_clients() -> None:
    table = TableBuilder().add("a", replace(PORT, affinity_seconds=3600), endpoints(1)).table
    (name,) = table.affinity_sets
    listing = (
        "table ip kube-proxy {\n\tset cluster-ips {\n\t\ttype ipv4_addr\n\t\telements = { 10.96.0.1 }\n\t}\n\n"
        f"\tset {name} {{\n\t\ttype ipv4_addr\n\t\tsize 65535\n\t\tflags dynamic,timeout\n\t\ttimeout 1h\n"
        "\t\telements = { 192.0.2.1 expires 59m58s320ms,\n\t\t\t     192.0.2.2 expires 30m }\n\t}\n}\n"
    )
    clients = affinity_clients(listing, table.affinity_sets)
    assert clients == {name: "192.0.2.1 expires 59m58s320ms, 192.0.2.2 expires 30m"}
    script = table_script(table, clients)
    assert script.startswith("add table ip kube-proxy\ndelete table ip kube-proxy\nadd table ip kube-proxy {")
    assert f"add element ip kube-proxy {name} {{ {clients[name]} }}" in script
    assert affinity_clients(listing, {name: 7200}) == {}  # another timeout
    assert affinity_clients(listing, {}) == {}


def test_chain_names_are_those_of_upstream() -> None:
    name = port_name("svc1")._replace(service=port_name("svc1").service._replace(namespace="ns1"), port="p80")
    assert names.port_chain_base(name) == "ULMVA6XW-ns1/svc1/tcp/p80"
    (one,) = endpoints(1)
    found = names.endpoint_chain_base(name, replace(one, ip="10.180.0.1", port=80))
    assert found == "5OJB2KTY-ns1/svc1/tcp/p80__10.180.0.1/80"
    longest = names.port_chain_base(name._replace(port="x" * 300))
    assert len(longest) == 240
    assert longest.endswith("...")
