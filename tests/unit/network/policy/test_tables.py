# SPDX-License-Identifier: Apache-2.0
"""Compiled tables: equal to the API's semantics, and independent of the order of changes."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_network

from hypothesis import example, given, settings
from hypothesis import strategies as st

from kubeloop.api.generated.meta_v1 import LabelSelector, LabelSelectorRequirement, ObjectMeta
from kubeloop.api.generated.networking_v1 import (
    IPBlock,
    NetworkPolicy,
    NetworkPolicyEgressRule,
    NetworkPolicyIngressRule,
    NetworkPolicyPeer,
    NetworkPolicyPort,
    NetworkPolicySpec,
)
from kubeloop.network.policy.evaluator import Connection, PolicyEvaluator, PolicyState
from kubeloop.network.policy.model import NamedPort, PodEndpoint
from kubeloop.network.policy.table import NftablesTable
from kubeloop.network.policy.tables import PolicyTables
from kubeloop.runtime.objects.keys import ObjectKey, key_of
from tests.unit.network.policy.table_walk import is_accepted

NAMESPACES = ("x", "y")
KEYS, VALUES = ("app",), ("a", "b")
PROTOCOLS = ("TCP", "UDP", "SCTP")
PORTS = (80, 81, 90, 443)
NAMES = ("http", "dns")
# Pods have the first five addresses; the others are outside the cluster.
ADDRESSES = [*(ip_address(f"10.0.{n // 4}.{n % 4 + 2}") for n in range(16)), ip_address("192.168.0.9")]
ADDRESSES6 = [ip_address(f"fd00::{n // 4}:{n % 4 + 2}") for n in range(16)]
CIDRS = ("10.0.0.0/16", "10.0.1.0/24", "10.0.1.0/30", "0.0.0.0/0", "fd00::/64", "::/0", "10.0.2.3/32")
EXCEPTIONS = ("10.0.1.0/25", "10.0.1.2/32", "fd00::1:0/112", "10.0.0.0/24")

labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
requirements = st.builds(
    lambda key, operator, values: LabelSelectorRequirement(
        key=key, operator=operator, values=() if operator.endswith("xist") or operator == "Exists" else tuple(values)
    ),
    st.sampled_from(KEYS),
    st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist")),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=2, unique=True),
)
selectors = st.just(LabelSelector()) | st.builds(
    lambda matches, expressions: LabelSelector(match_labels=matches, match_expressions=tuple(expressions)),
    labels,
    st.lists(requirements, max_size=1),
)
blocks = st.builds(
    lambda cidr, excepted: IPBlock(cidr=cidr, except_=tuple(excepted)),
    st.sampled_from(CIDRS),
    st.lists(st.sampled_from(EXCEPTIONS), max_size=2),
)
peers = st.one_of(
    st.builds(lambda block: NetworkPolicyPeer(ip_block=block), blocks),
    st.builds(lambda pods: NetworkPolicyPeer(pod_selector=pods), selectors),
    st.builds(lambda spaces: NetworkPolicyPeer(namespace_selector=spaces), selectors),
    st.builds(
        lambda pods, spaces: NetworkPolicyPeer(pod_selector=pods, namespace_selector=spaces), selectors, selectors
    ),
)
ports = st.one_of(
    st.builds(lambda protocol: NetworkPolicyPort(protocol=protocol), st.sampled_from(PROTOCOLS)),
    st.builds(
        lambda protocol, port: NetworkPolicyPort(protocol=protocol, port=port),
        st.sampled_from((None, *PROTOCOLS)),
        st.sampled_from((*PORTS, *NAMES)),
    ),
    st.builds(
        lambda port, more: NetworkPolicyPort(protocol="TCP", port=port, end_port=port + more),
        st.sampled_from(PORTS),
        st.integers(0, 20),
    ),
)
ingress = st.builds(
    lambda sources, allowed: NetworkPolicyIngressRule(from_=tuple(sources), ports=tuple(allowed)),
    st.lists(peers, max_size=2),
    st.lists(ports, max_size=2),
)
egress = st.builds(
    lambda targets, allowed: NetworkPolicyEgressRule(to=tuple(targets), ports=tuple(allowed)),
    st.lists(peers, max_size=2),
    st.lists(ports, max_size=2),
)
policies = st.builds(
    lambda name, namespace, selector, rules, types: NetworkPolicy(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=NetworkPolicySpec(
            pod_selector=selector, ingress=tuple(rules[0]), egress=tuple(rules[1]), policy_types=types
        ),
    ),
    st.sampled_from(("p", "q")),
    st.sampled_from(NAMESPACES),
    selectors,
    st.tuples(st.lists(ingress, max_size=2), st.lists(egress, max_size=2)),
    st.sampled_from(((), ("Ingress",), ("Egress",), ("Ingress", "Egress"))),
)
pods = st.builds(
    lambda index, namespace, own, named, is_local, families: PodEndpoint(
        ObjectKey(namespace, f"pod-{index}"),
        own,
        frozenset((ADDRESSES[index], ADDRESSES6[index])[: len(families)]),
        frozenset(named),
        is_local,
    ),
    st.integers(0, 4),
    st.sampled_from(NAMESPACES),
    labels,
    st.lists(
        st.builds(NamedPort, st.sampled_from(PROTOCOLS), st.sampled_from(NAMES), st.sampled_from(PORTS)), max_size=2
    ),
    st.sampled_from((True, True, False)),
    st.sampled_from(("4", "46")),
)
ENDS = ((*ADDRESSES[:6], ADDRESSES[16]), ADDRESSES6[:6])
CONNECTIONS = [
    Connection(source, target, protocol, port)
    for ends in ENDS
    for source in ends
    for target in ends
    for protocol, port in (("TCP", 80), ("TCP", 85), ("UDP", 80), ("SCTP", 443), ("ICMP", 0))
]
namespaces = st.fixed_dictionaries({"x": labels}, optional={"y": labels})


def unique_pods(found: list[PodEndpoint]) -> list[PodEndpoint]:
    """Return pods with unique names and addresses."""
    return list({next(iter(pod.addresses & set(ADDRESSES))): pod for pod in found}.values())


def build(found: list[PodEndpoint], spaces: dict[str, dict[str, str]], rules: list[NetworkPolicy]) -> PolicyTables:
    tables = PolicyTables()
    tables.set_pods((pod.key, pod) for pod in found)
    for name, own in spaces.items():
        tables.set_namespace(name, own)
    for policy in rules:
        tables.set_policy(policy)
    return tables


def state_of(found: list[PodEndpoint], spaces: dict[str, dict[str, str]], rules: list[NetworkPolicy]) -> PolicyState:
    return PolicyState({pod.key: pod for pod in found}, dict(spaces), {key_of(one): one for one in rules})


def expected(state: PolicyState, connection: Connection) -> bool:
    """Return the decision of a node: policies of local pods only."""
    evaluator = PolicyEvaluator(state)
    local = {address for pod in state.pods.values() if pod.is_local for address in pod.addresses}
    return (connection.source not in local or evaluator.allows_egress(connection)) and (
        connection.destination not in local or evaluator.allows_ingress(connection)
    )


def egress_policy(*values: str) -> NetworkPolicy:
    selector = LabelSelector(match_expressions=(LabelSelectorRequirement(key="app", operator="In", values=values),))
    rule = NetworkPolicyEgressRule(to=(NetworkPolicyPeer(pod_selector=selector),))
    spec = NetworkPolicySpec(pod_selector=LabelSelector(), egress=(rule,))
    return NetworkPolicy(metadata=ObjectMeta(name="q", namespace="y"), spec=spec)


def content(table: NftablesTable) -> tuple[object, ...]:
    return table.sets, table.elements, table.chains


@settings(max_examples=100, deadline=None)
@given(st.lists(pods, min_size=2, max_size=8), namespaces, st.lists(policies, min_size=1, max_size=4))
def test_tables_decide_as_the_evaluator(
    found: list[PodEndpoint], spaces: dict[str, dict[str, str]], rules: list[NetworkPolicy]
) -> None:
    found = unique_pods(found)
    rules = list({key_of(one): one for one in rules}.values())
    tables, state = build(found, spaces, rules), state_of(found, spaces, rules)
    for connection in CONNECTIONS:
        assert is_accepted(tables.table, connection) == expected(state, connection), connection


change = st.one_of(
    st.tuples(st.just("pod"), pods),
    st.tuples(st.just("gone"), pods),
    st.tuples(st.just("namespace"), st.tuples(st.sampled_from(NAMESPACES), st.none() | labels)),
    st.tuples(st.just("policy"), policies),
    st.tuples(st.just("no policy"), policies),
)


@settings(max_examples=100, deadline=None)
@example(changes=[("policy", egress_policy("a", "b")), ("policy", egress_policy("b", "a"))])
@given(st.lists(change, min_size=5, max_size=25))
def test_changes_lead_to_the_same_table_as_a_new_start(changes: list[tuple[str, object]]) -> None:
    tables = PolicyTables()
    applied = ScriptedTable()
    owner: dict[ObjectKey, PodEndpoint] = {}
    spaces: dict[str, dict[str, str]] = {}
    rules: dict[ObjectKey, NetworkPolicy] = {}
    applied.run(tables.table.render_full())
    for kind, value in changes:
        if isinstance(value, PodEndpoint):
            others = [pod for pod in owner.values() if pod.key != value.key and pod.addresses & value.addresses]
            removed = [(pod.key, replace(pod, addresses=pod.addresses - value.addresses)) for pod in others]
            tables.set_pods([*removed, (value.key, value if kind == "pod" else None)])
            owner |= dict(removed)
            owner.pop(value.key, None)
            if kind == "pod":
                owner[value.key] = value
        elif isinstance(value, NetworkPolicy):
            if kind == "policy":
                tables.set_policy(value)
                rules[key_of(value)] = value
            else:
                tables.remove_policy(key_of(value))
                rules.pop(key_of(value), None)
        elif isinstance(value, tuple):
            name, own = value
            tables.set_namespace(name, own)
            spaces.pop(name, None)
            if own is not None:
                spaces[name] = own
        applied.run(tables.table.render_changes())
    fresh = build(list(owner.values()), spaces, list(rules.values()))
    assert content(tables.table) == content(fresh.table)
    assert applied.content == ScriptedTable().run(fresh.table.render_full())


class ScriptedTable:
    """A table that is changed by scripts only, and refuses what the kernel would refuse."""

    def __init__(self) -> None:
        self.content: dict[str, dict[str, object]] = {"set": {}, "chain": {}}

    def run(self, script: str) -> dict[str, dict[str, object]]:
        for line in script.splitlines():
            verb, what, _, _, *rest = line.split(" ", 5) if " rule " in line or " element " in line else line.split(" ")
            getattr(self, f"_{verb}_{what}")(*rest)
        return self.content

    def _add_table(self) -> None:
        pass

    def _delete_table(self) -> None:
        self.content = {"set": {}, "chain": {}}

    def _add_set(self, name: str, *_: str) -> None:
        assert name not in self.content["set"]
        self.content["set"][name] = {}

    _add_map = _add_set

    def _add_chain(self, name: str, *_: str) -> None:
        assert name not in self.content["chain"]
        self.content["chain"][name] = []

    def _flush_chain(self, name: str) -> None:
        self.content["chain"][name] = []

    def _add_rule(self, name: str, rule: str) -> None:
        chain = self.content["chain"][name]
        assert isinstance(chain, list)
        chain.append(rule)
        for word in rule.split():
            if word.startswith("@"):
                assert word[1:] in self.content["set"]
        if " ".join(rule.split()[-2:-1]) in ("jump", "goto"):
            assert rule.split()[-1] in self.content["chain"]

    def _elements(self, name: str, text: str) -> tuple[dict[str, str], list[list[str]]]:
        found = self.content["set"][name]
        assert isinstance(found, dict)
        return found, [(*one.split(" : "), "")[:2] for one in text[2:-2].split(", ")]  # type: ignore[misc]

    def _add_element(self, name: str, text: str) -> None:
        found, rows = self._elements(name, text)
        for key, verdict in rows:
            assert key not in found
            if verdict:
                assert verdict.split()[1] in self.content["chain"]
            found[key] = verdict

    def _delete_element(self, name: str, text: str) -> None:
        found, rows = self._elements(name, text)
        for key, _ in rows:
            del found[key]

    def _delete_chain(self, name: str) -> None:
        assert not self.content["chain"].pop(name)
        for rules in self.content["chain"].values():
            assert isinstance(rules, list)
            assert not any(rule.endswith((f"jump {name}", f"goto {name}")) for rule in rules)
        for elements in self.content["set"].values():
            assert isinstance(elements, dict)
            assert f"goto {name}" not in elements.values()

    def _delete_set(self, name: str) -> None:
        del self.content["set"][name]
        for rules in self.content["chain"].values():
            assert isinstance(rules, list)
            assert not any(f"@{name}" in rule.split() for rule in rules)

    _delete_map = _delete_set


def test_a_pod_change_touches_its_elements_only() -> None:
    policy = NetworkPolicy(
        metadata=ObjectMeta(name="p", namespace="x"),
        spec=NetworkPolicySpec(
            ingress=(NetworkPolicyIngressRule(from_=(NetworkPolicyPeer(pod_selector=LabelSelector()),)),)
        ),
    )
    many = [PodEndpoint(ObjectKey("x", f"pod-{n}"), {}, frozenset((ADDRESSES[n],)), is_local=True) for n in range(8)]
    tables = build(many, {"x": {}}, [policy])
    tables.table.render_full()
    new = PodEndpoint(ObjectKey("x", "new"), {}, frozenset((ADDRESSES[9],)), is_local=True)
    tables.set_pods([(new.key, new)])
    lines = tables.table.render_changes().splitlines()
    assert all(line.startswith("add element ") and str(ADDRESSES[9]) in line for line in lines)
    assert not any(str(ADDRESSES[0]) in line for line in lines)
    tables.set_pods([(new.key, replace(new))])
    assert tables.table.render_changes() == ""


def test_unknown_addresses_of_the_node_are_dropped_while_there_is_a_policy() -> None:
    tables = build([PodEndpoint(ObjectKey("x", "a"), {}, frozenset((ADDRESSES[0],)), is_local=True)], {"x": {}}, [])
    tables.set_pod_networks(frozenset((ip_network("10.0.0.0/24"),)))
    unknown = Connection(ip_address("10.0.0.77"), ADDRESSES[16], "TCP", 80)
    arriving = Connection(ADDRESSES[16], ip_address("10.0.0.77"), "TCP", 80)
    gateway = Connection(ip_address("10.0.0.1"), ADDRESSES[16], "TCP", 80)
    known = Connection(ADDRESSES[0], ADDRESSES[16], "TCP", 80)
    assert is_accepted(tables.table, unknown)
    policy = NetworkPolicy(metadata=ObjectMeta(name="p", namespace="y"))
    tables.set_policy(policy)
    assert not is_accepted(tables.table, unknown)
    assert not is_accepted(tables.table, unknown, "input")
    assert not is_accepted(tables.table, arriving)
    assert is_accepted(tables.table, gateway)
    assert is_accepted(tables.table, known)
    tables.remove_policy(key_of(policy))
    assert is_accepted(tables.table, unknown)
