# SPDX-License-Identifier: Apache-2.0
"""Validation of NetworkPolicies: ports, peers and IP blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubeloop.api.addresses import check_legacy_cidr, parse_cidr
from kubeloop.api.generated import networking_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)
from kubeloop.api.meta.name_rules import check_port_name, check_port_number
from kubeloop.api.selectors import validate_label_selector
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last
from kubeloop.api.validation.shared.rules import ValidationRules

_SPEC: Final = FieldPath("spec")
_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_POLICY_TYPES: Final = ("Ingress", "Egress")


class _SpecCheck:
    """Validates one policy's spec; an update may keep CIDRs and label values that the current rules reject."""

    def __init__(self, old: networking_v1.NetworkPolicySpec | None) -> None:
        self.known_networks = frozenset(_networks(old)) if old else frozenset()
        self.any_values = old is not None and bool(validate_label_selector(old.pod_selector, _SPEC))

    def validate(self, spec: networking_v1.NetworkPolicySpec) -> FieldErrors:
        errors = validate_label_selector(spec.pod_selector, _SPEC.child("podSelector"), self.any_values)
        for index, ingress in enumerate(spec.ingress):
            at = _SPEC.child("ingress").index(index)
            errors += self._rule(ingress.ports, ingress.from_, at, "from")
        for index, egress in enumerate(spec.egress):
            at = _SPEC.child("egress").index(index)
            errors += self._rule(egress.ports, egress.to, at, "to")
        return sort_generated_last(errors + _validate_policy_types(spec.policy_types, _SPEC.child("policyTypes")))

    def _rule(
        self,
        ports: tuple[networking_v1.NetworkPolicyPort, ...],
        peers: tuple[networking_v1.NetworkPolicyPeer, ...],
        path: FieldPath,
        direction: str,
    ) -> FieldErrors:
        errors: FieldErrors = []
        for index, port in enumerate(ports):
            errors += _validate_port(port, path.child("ports").index(index))
        for index, peer in enumerate(peers):
            errors += self._peer(peer, path.child(direction).index(index))
        return errors

    def _peer(self, peer: networking_v1.NetworkPolicyPeer, path: FieldPath) -> FieldErrors:
        errors = validate_label_selector(peer.pod_selector, path.child("podSelector"), self.any_values)
        errors += validate_label_selector(peer.namespace_selector, path.child("namespaceSelector"), self.any_values)
        by_labels = peer.pod_selector is not None or peer.namespace_selector is not None
        if peer.ip_block is not None:
            errors += self._block(peer.ip_block, path.child("ipBlock"))
            if by_labels:
                errors.append(forbidden(path, "may not specify both ipBlock and another peer"))
        elif not by_labels:
            errors.append(required(path, "must specify a peer"))
        return errors

    def _block(self, block: networking_v1.IPBlock, path: FieldPath) -> FieldErrors:
        if not block.cidr:
            return mark_generated([required(path.child("cidr"))])
        errors = self._network(block.cidr, path.child("cidr"))
        parsed = parse_cidr(block.cidr)
        if parsed is None:
            return errors
        network = parsed[1]
        for index, excluded in enumerate(block.except_):
            at = path.child("except").index(index)
            errors += self._network(excluded, at)
            inner = parse_cidr(excluded)
            if inner and (inner[0] not in network or network.prefixlen >= inner[1].prefixlen):
                errors.append(invalid(at, excluded, "must be a strict subset of `cidr`"))
        return errors

    def _network(self, value: str, path: FieldPath) -> FieldErrors:
        if value in self.known_networks:
            return []
        return [invalid(path, value, message) for message in check_legacy_cidr(value, strict=True)]


def _networks(spec: networking_v1.NetworkPolicySpec) -> Iterator[str]:
    peers = [peer for ingress in spec.ingress for peer in ingress.from_]
    peers += [peer for egress in spec.egress for peer in egress.to]
    for peer in peers:
        if peer.ip_block is not None:
            yield peer.ip_block.cidr
            yield from peer.ip_block.except_


def _validate_port(port: networking_v1.NetworkPolicyPort, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if port.protocol is not None and port.protocol not in _PROTOCOLS:
        errors.append(not_supported(path.child("protocol"), port.protocol, _PROTOCOLS))
    if isinstance(port.port, int):
        errors += [invalid(path.child("port"), port.port, message) for message in check_port_number(port.port)]
        return errors + _validate_end(port.end_port, port.port, path.child("endPort"))
    if port.end_port is not None:
        why = "is not specified" if port.port is None else "is non-numeric"
        errors.append(invalid(path.child("endPort"), port.end_port, f"may not be specified when `port` {why}"))
    if port.port is not None:
        errors += [invalid(path.child("port"), port.port, message) for message in check_port_name(port.port)]
    return errors


def _validate_end(end: int | None, start: int, path: FieldPath) -> FieldErrors:
    if end is None:
        return []
    errors: FieldErrors = []
    if end < start:
        errors.append(invalid(path, end, "must be greater than or equal to `port`"))
    return errors + [invalid(path, end, message) for message in check_port_number(end)]


def _validate_policy_types(types: tuple[str, ...], path: FieldPath) -> FieldErrors:
    if len(types) > len(_POLICY_TYPES):
        return [invalid(path, types, "may not specify more than two policyTypes")]
    return [
        not_supported(path.index(index), name, _POLICY_TYPES)
        for index, name in enumerate(types)
        if name not in _POLICY_TYPES
    ]


def _validate_create(obj: networking_v1.NetworkPolicy) -> FieldErrors:
    return _SpecCheck(None).validate(obj.spec)


def _validate_update(new: networking_v1.NetworkPolicy, old: networking_v1.NetworkPolicy) -> FieldErrors:
    return _SpecCheck(old.spec).validate(new.spec)


NETWORK_POLICY = ValidationRules(_validate_create, _validate_update)
