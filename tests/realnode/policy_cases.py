# SPDX-License-Identifier: Apache-2.0
"""Policies and the connections that they allow, in the style of upstream's network policy tests.

Pods a, b and c in the namespaces x, y and z serve TCP and UDP at ports 80 and 81. A case lists policies of the
namespaces, and a function that says if a connection is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

NAMESPACES, NAMES, PORTS = "xyz", "abc", (80, 81)
Allowed = Callable[[str, str, int, str], bool]  # source, destination, port, protocol


class PolicyCase(NamedTuple):
    """Policies and the connections that they allow."""

    name: str
    policies: tuple[dict[str, Any], ...]
    allows: Allowed
    protocols: tuple[str, ...] = ("TCP",)


def policy(namespace: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Build a NetworkPolicy."""
    spec = {"podSelector": {}, **spec}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": meta, "spec": spec}


def pods(**labels: str) -> dict[str, Any]:
    """Build a selector of labels."""
    return {"matchLabels": labels}


def within(key: str, operator: str, *values: str) -> dict[str, Any]:
    """Build a selector with one expression."""
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


def ingress(*rules: dict[str, Any], to: dict[str, Any] | None = None) -> dict[str, Any]:
    """Build a spec of ingress rules."""
    return {"podSelector": to or {}, "policyTypes": ["Ingress"], "ingress": list(rules)}


def egress(*rules: dict[str, Any], of: dict[str, Any] | None = None) -> dict[str, Any]:
    """Build a spec of egress rules."""
    return {"podSelector": of or {}, "policyTypes": ["Egress"], "egress": list(rules)}


def tcp(port: int | str, end: int | None = None) -> dict[str, Any]:
    """Build a TCP port."""
    return {"protocol": "TCP", "port": port, **({"endPort": end} if end else {})}


NS_Y = {"namespaceSelector": pods(ns="y")}
NAMED_Y = {"namespaceSelector": pods(**{"kubernetes.io/metadata.name": "y"})}
TO_A = pods(pod="a")


def from_only(target: str, *sources: str) -> Allowed:
    """Allow only some sources to a target pod; everything else stays allowed."""
    return lambda s, d, p, _: s == d or d != target or s in sources


def into_only(space: str, test: Callable[[str], bool]) -> Allowed:
    """Allow only some sources into a namespace."""
    return lambda s, d, p, _: s == d or d[0] != space or test(s)


def out_only(space: str, test: Callable[[str, int], bool]) -> Allowed:
    """Allow pods of a namespace only some destinations."""
    return lambda s, d, p, _: s == d or s[0] != space or test(d, p)


CASES = (
    PolicyCase("no policy", (), lambda *_: True, ("TCP", "UDP")),
    PolicyCase("default deny ingress", (policy("x", "p", ingress()),), into_only("x", lambda s: False), ("TCP", "UDP")),
    PolicyCase("default deny egress", (policy("x", "p", egress()),), out_only("x", lambda d, p: False), ("TCP", "UDP")),
    PolicyCase(
        "default deny all",
        (policy("x", "p", {"policyTypes": ["Ingress", "Egress"]}),),
        lambda s, d, p, _: s == d or "x" not in (s[0], d[0]),
    ),
    PolicyCase("policy types default to ingress", (policy("x", "p", {}),), into_only("x", lambda s: False)),
    PolicyCase(
        "policy types default to both with egress rules",
        (policy("x", "p", {"egress": [{"to": [NS_Y]}]}),),
        lambda s, d, p, _: s == d or (d[0] != "x" and (s[0] != "x" or d[0] == "y")),
    ),
    PolicyCase(
        "allow pods of the own namespace by labels",
        (policy("x", "p", ingress({"from": [{"podSelector": pods(pod="b")}]})),),
        into_only("x", lambda s: s == "x/b"),
    ),
    PolicyCase(
        "allow ingress for a target",
        (policy("x", "deny", ingress()), policy("x", "p", ingress({"from": [{"podSelector": {}}]}, to=TO_A))),
        lambda s, d, p, _: s == d or d[0] != "x" or (d == "x/a" and s[0] == "x"),
    ),
    PolicyCase(
        "allow pods of all namespaces",
        (policy("x", "deny", ingress()), policy("x", "p", ingress({"from": [{"namespaceSelector": {}}]}, to=TO_A))),
        lambda s, d, p, _: s == d or d[0] != "x" or d == "x/a",
    ),
    PolicyCase(
        "allow another namespace",
        (policy("x", "p", ingress({"from": [NS_Y]}, to=TO_A)),),
        from_only("x/a", "y/a", "y/b", "y/c"),
    ),
    PolicyCase(
        "pod selector with expressions",
        (policy("x", "p", ingress({"from": [{"podSelector": within("pod", "In", "b")}]}, to=TO_A)),),
        from_only("x/a", "x/b"),
    ),
    PolicyCase(
        "pod selector with NotIn",
        (policy("x", "p", ingress({"from": [{"podSelector": within("pod", "NotIn", "b")}]}, to=TO_A)),),
        from_only("x/a", "x/c"),
    ),
    PolicyCase(
        "pod selector with Exists",
        (policy("x", "p", ingress({"from": [{"podSelector": within("pod", "Exists")}]}, to=TO_A)),),
        from_only("x/a", "x/b", "x/c"),
    ),
    PolicyCase(
        "pod selector with DoesNotExist",
        (policy("x", "p", ingress({"from": [{"podSelector": within("pod", "DoesNotExist")}]}, to=TO_A)),),
        from_only("x/a"),
    ),
    PolicyCase(
        "target selector with expressions",
        (policy("x", "p", ingress(to=within("pod", "In", "a", "c"))),),
        lambda s, d, p, _: s == d or d not in ("x/a", "x/c"),
    ),
    PolicyCase(
        "namespace selector with expressions",
        (policy("x", "p", ingress({"from": [{"namespaceSelector": within("ns", "In", "y")}]}, to=TO_A)),),
        from_only("x/a", "y/a", "y/b", "y/c"),
    ),
    PolicyCase(
        "pod selector or namespace selector",
        (policy("x", "p", ingress({"from": [NS_Y, {"podSelector": pods(pod="b")}]}, to=TO_A)),),
        from_only("x/a", "y/a", "y/b", "y/c", "x/b"),
    ),
    PolicyCase(
        "pod selector and namespace selector",
        (policy("x", "p", ingress({"from": [{**NS_Y, "podSelector": pods(pod="b")}]}, to=TO_A)),),
        from_only("x/a", "y/b"),
    ),
    PolicyCase(
        "several pod and namespace selectors",
        (
            policy(
                "x",
                "p",
                ingress(
                    {
                        "from": [
                            {
                                "namespaceSelector": within("ns", "NotIn", "x"),
                                "podSelector": within("pod", "In", "b", "c"),
                            }
                        ]
                    },
                    to=TO_A,
                ),
            ),
        ),
        from_only("x/a", "y/b", "y/c", "z/b", "z/c"),
    ),
    PolicyCase(
        "any of two pod selectors",
        (
            policy(
                "x", "p", ingress({"from": [{"podSelector": pods(pod="b")}, {"podSelector": pods(pod="c")}]}, to=TO_A)
            ),
        ),
        from_only("x/a", "x/b", "x/c"),
    ),
    PolicyCase(
        "one rule for each peer",
        (
            policy(
                "x",
                "p",
                ingress({"from": [{"podSelector": pods(pod="b")}]}, {"from": [{**NS_Y, "podSelector": TO_A}]}, to=TO_A),
            ),
        ),
        from_only("x/a", "x/b", "y/a"),
    ),
    PolicyCase(
        "namespace by its default label",
        (policy("x", "p", ingress({"from": [NAMED_Y]}, to=TO_A)),),
        from_only("x/a", "y/a", "y/b", "y/c"),
    ),
    PolicyCase(
        "namespace by its default label with expressions",
        (
            policy(
                "x",
                "p",
                ingress(
                    {"from": [{"namespaceSelector": within("kubernetes.io/metadata.name", "NotIn", "x")}]}, to=TO_A
                ),
            ),
        ),
        lambda s, d, p, _: s == d or d != "x/a" or s[0] != "x",
    ),
    PolicyCase(
        "ports",
        (policy("x", "p", ingress({"from": [NS_Y], "ports": [tcp(81)]}, to=TO_A)),),
        lambda s, d, p, _: s == d or d != "x/a" or (s[0] == "y" and p == 81),
    ),
    PolicyCase(
        "range of ports",
        (policy("x", "p", ingress({"ports": [tcp(81, 90)]}, to=TO_A)),),
        lambda s, d, p, _: s == d or d != "x/a" or p == 81,
    ),
    PolicyCase(
        "range with both ports",
        (policy("x", "p", ingress({"ports": [tcp(80, 81)]}, to=TO_A)),),
        lambda *_: True,
    ),
    PolicyCase(
        "stacked policies",
        (
            policy("x", "one", ingress({"from": [NS_Y], "ports": [tcp(81)]}, to=TO_A)),
            policy("x", "two", ingress({"from": [NS_Y], "ports": [tcp(80)]}, to=TO_A)),
        ),
        from_only("x/a", "y/a", "y/b", "y/c"),
    ),
    PolicyCase("allow all", (policy("x", "p", ingress({})),), lambda *_: True, ("TCP", "UDP")),
    PolicyCase(
        "named port",
        (policy("x", "p", ingress({"ports": [tcp("serve-81")]})),),
        lambda s, d, p, _: s == d or d[0] != "x" or p == 81,
    ),
    PolicyCase(
        "named port from a namespace",
        (policy("x", "p", ingress({"from": [NS_Y], "ports": [tcp("serve-80")]}, to=TO_A)),),
        lambda s, d, p, _: s == d or d != "x/a" or (s[0] == "y" and p == 80),
    ),
    PolicyCase(
        "unknown named port",
        (policy("x", "p", ingress({"ports": [tcp("no-such-port")]}, to=TO_A)),),
        from_only("x/a"),
    ),
    PolicyCase(
        "egress to a named port",
        (policy("x", "p", egress({"ports": [tcp("serve-80")]}, of=TO_A)),),
        lambda s, d, p, _: s == d or s != "x/a" or p == 80,
    ),
    PolicyCase(
        "egress of one pod denied",
        (policy("x", "p", egress(of=TO_A)),),
        lambda s, d, p, _: s == d or s != "x/a",
    ),
    PolicyCase(
        "egress to a pod of another namespace",
        (policy("x", "p", egress({"to": [{**NS_Y, "podSelector": TO_A}]}, of=TO_A)),),
        lambda s, d, p, _: s == d or s != "x/a" or d == "y/a",
    ),
    PolicyCase(
        "ingress and egress together",
        (
            policy(
                "x",
                "p",
                {
                    "podSelector": TO_A,
                    "policyTypes": ["Ingress", "Egress"],
                    "ingress": [{"from": [{"podSelector": pods(pod="b")}]}],
                    "egress": [{"to": [NS_Y], "ports": [tcp(80)]}],
                },
            ),
        ),
        lambda s, d, p, _: s == d or ((d != "x/a" or s == "x/b") and (s != "x/a" or (d[0] == "y" and p == 80))),
    ),
    PolicyCase(
        "egress denied although the server allows it",
        (policy("x", "p", egress(of=TO_A)), policy("y", "q", ingress({"from": [{"namespaceSelector": {}}]}, to=TO_A))),
        lambda s, d, p, _: s == d or s != "x/a",
    ),
    PolicyCase(
        "egress allowed although the server denies it",
        (policy("x", "p", egress({"to": [NS_Y]}, of=TO_A)), policy("y", "q", ingress(to=TO_A))),
        lambda s, d, p, _: s == d or (d != "y/a" and (s != "x/a" or d[0] == "y")),
    ),
    PolicyCase(
        "any port of a protocol",
        (policy("x", "p", ingress({"ports": [{"protocol": "UDP"}]}, to=TO_A)),),
        lambda s, d, p, protocol: s == d or d != "x/a" or protocol == "UDP",
        ("TCP", "UDP"),
    ),
    PolicyCase(
        "only UDP at one port",
        (policy("x", "p", ingress({"ports": [{"protocol": "UDP", "port": 80}]}, to=TO_A)),),
        lambda s, d, p, protocol: s == d or d != "x/a" or (protocol, p) == ("UDP", 80),
        ("TCP", "UDP"),
    ),
    PolicyCase(
        "named UDP port",
        (policy("x", "p", ingress({"ports": [{"protocol": "UDP", "port": "serve-81-udp"}]}, to=TO_A)),),
        lambda s, d, p, protocol: s == d or d != "x/a" or (protocol, p) == ("UDP", 81),
        ("TCP", "UDP"),
    ),
    PolicyCase(
        "SCTP is not TCP",
        (policy("x", "p", ingress({"ports": [{"protocol": "SCTP", "port": 80}]}, to=TO_A)),),
        from_only("x/a"),
        ("TCP", "UDP"),
    ),
    PolicyCase(
        "allow-all ingress beside a restricted one",
        (policy("x", "p", ingress({"from": [NS_Y], "ports": [tcp(80)]})), policy("x", "q", ingress({}))),
        lambda *_: True,
    ),
    PolicyCase(
        "allow-all egress beside a restricted one",
        (policy("x", "p", egress({"ports": [tcp(80)]})), policy("x", "q", egress({}))),
        lambda *_: True,
    ),
    PolicyCase(
        "directions are independent",
        (policy("x", "p", ingress(to=TO_A)), policy("x", "q", egress({}, of=TO_A))),
        from_only("x/a"),
    ),
    PolicyCase(
        "egress of every pod of a namespace to its own namespace",
        (policy("x", "p", egress({"to": [{"podSelector": {}}]})),),
        out_only("x", lambda d, p: d[0] == "x"),
    ),
    PolicyCase(
        "no peer matches",
        (policy("x", "p", ingress({"from": [{"podSelector": pods(pod="none")}]})),),
        into_only("x", lambda s: False),
    ),
)
