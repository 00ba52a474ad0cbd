# SPDX-License-Identifier: Apache-2.0
"""Maps the claims of a verified token to a user, and evaluates the rules about both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubeloop.api.cel.program import Program
from kubeloop.api.cel.values import CelError
from kubeloop.api.expressions.access import CLAIMS, USER, compile_mapping, compile_rule
from kubeloop.api.meta.field_path import quote
from kubeloop.apiserver.authentication.oidc.configuration import JWTAuthenticatorConfig, PrefixedClaimOrExpression
from kubeloop.apiserver.authentication.remote_tokens import TokenRejected
from kubeloop.apiserver.request.context import CREDENTIAL_ID, User

_NO_STRINGS = "expression must return a string or a list of strings"


class ClaimMapper:
    """Mapper of one authenticator's valid configuration; its expressions are compiled once."""

    def __init__(self, config: JWTAuthenticatorConfig) -> None:
        mappings = config.claim_mappings
        self._config = config
        self._username = _compiled(mappings.username.expression)
        self._groups = _compiled(mappings.groups.expression)
        self._uid = _compiled(mappings.uid.expression)
        self._extra = [(one.key, compile_mapping(one.value_expression)) for one in mappings.extra]
        rules = config.claim_validation_rules
        self._required = {one.claim: one.required_value for one in rules if one.claim}
        self._claim_rules = [(compile_rule(one.expression, CLAIMS), one.message) for one in rules if one.expression]
        self._user_rules = [(compile_rule(one.expression, USER), one.message) for one in config.user_validation_rules]

    def user_of(self, claims: Mapping[str, Any]) -> User:
        """Return the user of a token's claims; raises TokenRejected."""
        values = {CLAIMS: _as_doubles(claims)}
        name = self._name(claims, values)
        groups = self._group_names(claims, values)
        user = User(name, groups, self._uid_of(claims, values), self._extra_of(claims, values))
        for claim, required in self._required.items():
            if claim not in claims:
                raise TokenRejected(f"oidc: required claim {claim} not present in ID token")
            found = _text(claims, claim, f"oidc: parse claim {claim}")
            if found != required:
                told = f"Got = {found}, want = {required}"
                raise TokenRejected(f"oidc: required claim {claim} value does not match. {told}")
        _check(self._claim_rules, values, "oidc: error evaluating claim validation expression")
        info = {"username": user.name, "uid": user.uid, "groups": list(groups), "extra": _extra_map(user)}
        _check(self._user_rules, {USER: info}, "oidc: error evaluating user info validation rule")
        return user

    def _name(self, claims: Mapping[str, Any], values: Mapping[str, Any]) -> str:
        if self._username is not None:
            about = "oidc: error evaluating username claim expression"
            name = _evaluate(self._username, values, about)
            if not isinstance(name, str):
                raise TokenRejected(f"{about}: username claim expression must return a string")
            if not name:
                raise TokenRejected("oidc: empty username via CEL expression is not allowed")
            return name
        source = self._config.claim_mappings.username
        name = _text(claims, source.claim, f"oidc: parse username claims {quote(source.claim)}")
        if source.claim == "email" and "email_verified" in claims:
            verified = claims["email_verified"]
            if not isinstance(verified, bool):
                told = f"json: cannot unmarshal {_kind(verified)} into Go value of type bool"
                raise TokenRejected(f"oidc: parse 'email_verified' claim: {told}")
            if not verified:
                raise TokenRejected("oidc: email not verified")
        return f"{source.prefix or ''}{name}"

    def _group_names(self, claims: Mapping[str, Any], values: Mapping[str, Any]) -> tuple[str, ...]:
        source: PrefixedClaimOrExpression = self._config.claim_mappings.groups
        if source.claim and source.claim in claims:
            found = claims[source.claim]
            listed = found if isinstance(found, list) else [found]
            if not all(isinstance(one, str) for one in listed):
                told = f"json: cannot unmarshal {_kind(found)} into Go value of type string"
                raise TokenRejected(f"oidc: parse groups claim {quote(source.claim)}: {told}")
            return tuple(f"{source.prefix or ''}{group}" for group in listed)
        if self._groups is None:
            return ()
        about = "oidc: error evaluating group claim expression"
        return _strings(_evaluate(self._groups, values, about), about)

    def _uid_of(self, claims: Mapping[str, Any], values: Mapping[str, Any]) -> str:
        source = self._config.claim_mappings.uid
        if source.claim:
            return _text(claims, source.claim, f"oidc: parse uid claim {quote(source.claim)}")
        if self._uid is None:
            return ""
        about = "oidc: error evaluating uid claim expression"
        uid = _evaluate(self._uid, values, about)
        if not isinstance(uid, str):
            raise TokenRejected(f"{about}: uid claim expression must return a string")
        return uid

    def _extra_of(
        self, claims: Mapping[str, Any], values: Mapping[str, Any]
    ) -> tuple[tuple[str, tuple[str, ...]], ...]:
        extra: dict[str, tuple[str, ...]] = {}
        if isinstance(claims.get("jti"), str) and claims["jti"]:
            extra[CREDENTIAL_ID] = (f"JTI={claims['jti']}",)
        for key, program in self._extra:
            found = _evaluate(program, values, "")
            strings = _strings(found, f"oidc: error evaluating extra claim expression: {program.text}")
            if strings:
                extra[key] = strings
        return tuple(extra.items())


def _compiled(text: str) -> Program | None:
    return compile_mapping(text) if text else None


def _evaluate(program: Program, values: Mapping[str, Any], about: str) -> Any:
    try:
        return program.evaluate(values)[0]
    except CelError as error:
        told = f"expression '{program.text}' resulted in error: {error}"
        raise TokenRejected(f"{about}: {told}" if about else told) from None


def _check(rules: Sequence[tuple[Program, str]], values: Mapping[str, Any], about: str) -> None:
    """Evaluate all rules, then require that all hold."""
    for (program, message), result in [(rule, _evaluate(rule[0], values, about)) for rule in rules]:
        if result is not True:
            raise TokenRejected(f"{about}: validation expression '{program.text}' failed: {message}")


def _strings(value: Any, about: str) -> tuple[str, ...]:
    """Return a string, a list of strings or null as strings without empty ones."""
    listed = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(listed, (list, tuple)) or not all(isinstance(one, str) for one in listed):
        raise TokenRejected(f"{about}: {_NO_STRINGS}")
    return tuple(one for one in listed if one)


def _text(claims: Mapping[str, Any], claim: str, about: str) -> str:
    if claim not in claims:
        raise TokenRejected(f"{about}: claim not present")
    value = claims[claim]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TokenRejected(f"{about}: json: cannot unmarshal {_kind(value)} into Go value of type string")
    return value


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    names = {str: "string", int: "number", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _as_doubles(value: Any) -> Any:
    """Return JSON data with all numbers as doubles, as Go's decoder makes them."""
    if isinstance(value, Mapping):
        return {key: _as_doubles(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_as_doubles(one) for one in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _extra_map(user: User) -> dict[str, list[str]]:
    return {key: list(values) for key, values in user.extra}
