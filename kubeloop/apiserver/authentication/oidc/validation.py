# SPDX-License-Identifier: Apache-2.0
"""Validation of authentication configuration, with upstream's messages."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from kubeloop.api.cel.program import Program
from kubeloop.api.expressions.access import (
    CLAIMS,
    USER,
    ExpressionError,
    compile_mapping,
    compile_rule,
    selects_field,
)
from kubeloop.api.meta import field_path
from kubeloop.api.meta.field_path import FieldError, FieldPath
from kubeloop.api.meta.name_rules import validate_domain_prefixed_path
from kubeloop.apiserver.authentication.oidc.configuration import (
    AuthenticationConfiguration,
    ClaimMappings,
    ClaimValidationRule,
    ExtraMapping,
    Issuer,
    JWTAuthenticatorConfig,
    PrefixedClaimOrExpression,
    UserValidationRule,
)

_MAX_AUTHENTICATORS: Final = 64
_BOTH: Final = "claim and expression can't both be set"
_EITHER: Final = "claim or expression is required"
_EMAIL_UNVERIFIED: Final = (
    "claims.email_verified must be used in claimMappings.username.expression or "
    "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in "
    "claimMappings.username.expression"
)


def configuration_errors(config: AuthenticationConfiguration, disallowed_issuers: Sequence[str]) -> list[FieldError]:
    """Return the field errors of a configuration; the disallowed issuers are those of service account tokens."""
    root = FieldPath("jwt")
    if len(config.jwt) > _MAX_AUTHENTICATORS:
        return [field_path.too_many(root, len(config.jwt), _MAX_AUTHENTICATORS)]
    found: list[FieldError] = []
    issuers: set[str] = set()
    discovery_urls: set[str] = set()
    for index, one in enumerate(config.jwt):
        path = root.index(index)
        found += authenticator_errors(one, path, disallowed_issuers)
        for seen, name, url in (
            (issuers, "url", one.issuer.url),
            (discovery_urls, "discoveryURL", one.issuer.discovery_url),
        ):
            if url in seen and (url or name == "url"):
                found.append(field_path.duplicate(path.child("issuer", name), url))
            seen.add(url)
    anonymous = config.anonymous
    if anonymous is not None and anonymous.conditions and not anonymous.enabled:
        shown = [{"Path": one.path} for one in anonymous.conditions]
        told = "enabled should be set to true when conditions are defined"
        found.append(field_path.invalid(FieldPath("anonymous").child("conditions"), shown, told))
    return found


def authenticator_errors(
    config: JWTAuthenticatorConfig, path: FieldPath, disallowed_issuers: Sequence[str]
) -> list[FieldError]:
    """Return the field errors of one authenticator."""
    return [
        *_issuer_errors(config.issuer, path.child("issuer"), disallowed_issuers),
        *_claim_rule_errors(config.claim_validation_rules, path.child("claimValidationRules")),
        *_mapping_errors(config.claim_mappings, path.child("claimMappings")),
        *_email_errors(config, path.child("claimMappings")),
        *_user_rule_errors(config.user_validation_rules, path.child("userValidationRules")),
    ]


def _issuer_errors(issuer: Issuer, path: FieldPath, disallowed: Sequence[str]) -> Iterator[FieldError]:
    if not issuer.url:
        yield field_path.required(path.child("url"))
    else:
        yield from _url_errors(issuer.url, path.child("url"), disallowed)
    if issuer.discovery_url:
        where = path.child("discoveryURL")
        if issuer.url and issuer.url.rstrip("/") == issuer.discovery_url.rstrip("/"):
            yield field_path.invalid(where, issuer.discovery_url, "discoveryURL must be different from URL")
        yield from _url_errors(issuer.discovery_url, where, ())
    yield from _audience_errors(issuer, path)
    if issuer.certificate_authority:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=issuer.certificate_authority)
        except (OSError, ValueError):
            told = "data does not contain any valid RSA or ECDSA certificates"
            yield field_path.invalid(path.child("certificateAuthority"), "<omitted>", told)
    if issuer.egress_selector_type not in ("", "controlplane", "cluster"):
        told = "egress selector must be either controlplane or cluster"
        yield field_path.invalid(path.child("egressSelectorType"), issuer.egress_selector_type, told)


def _url_errors(url: str, path: FieldPath, disallowed: Sequence[str]) -> Iterator[FieldError]:
    if url in disallowed:
        listed = " ".join(sorted(disallowed))
        yield field_path.invalid(path, url, f"URL must not overlap with disallowed issuers: [{listed}]")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        yield field_path.invalid(path, url, f'parse "{url}": {error}')
        return
    for wrong, told in (
        (parts.scheme != "https", "URL scheme must be https"),
        ("@" in parts.netloc, "URL must not contain a username or password"),
        (bool(parts.query), "URL must not contain a query"),
        (bool(parts.fragment), "URL must not contain a fragment"),
    ):
        if wrong:
            yield field_path.invalid(path, url, told)


def _audience_errors(issuer: Issuer, path: FieldPath) -> Iterator[FieldError]:
    audiences, policy = issuer.audiences, issuer.audience_match_policy
    where = path.child("audiences")
    if not audiences:
        yield field_path.required(where, f"at least one {where} is required")
        return
    for index, audience in enumerate(audiences):
        if not audience:
            yield field_path.required(where.index(index))
        if audience in audiences[:index]:
            yield field_path.duplicate(where.index(index), audience)
    where = path.child("audienceMatchPolicy")
    if len(audiences) > 1 and policy != "MatchAny":
        yield field_path.invalid(where, policy, "audienceMatchPolicy must be MatchAny for multiple audiences")
    if len(audiences) == 1 and policy not in ("", "MatchAny"):
        told = "audienceMatchPolicy must be empty or MatchAny for single audience"
        yield field_path.invalid(where, policy, told)


def _claim_rule_errors(rules: Sequence[ClaimValidationRule], path: FieldPath) -> Iterator[FieldError]:
    claims: set[str] = set()
    expressions: set[str] = set()
    for index, rule in enumerate(rules):
        where = path.index(index)
        if rule.claim and rule.expression:
            yield field_path.invalid(where, rule.claim, _BOTH)
        elif rule.claim:
            if rule.message:
                told = "may not be specified when claim is set"
                yield field_path.invalid(where.child("message"), rule.message, told)
            if rule.claim in claims:
                yield field_path.duplicate(where.child("claim"), rule.claim)
            claims.add(rule.claim)
        elif rule.expression:
            if rule.required_value:
                told = "may not be specified when expression is set"
                yield field_path.invalid(where.child("requiredValue"), rule.required_value, told)
            yield from _rule_errors(rule.expression, where.child("expression"), CLAIMS, expressions)
        else:
            yield field_path.required(where, _EITHER)


def _user_rule_errors(rules: Sequence[UserValidationRule], path: FieldPath) -> Iterator[FieldError]:
    expressions: set[str] = set()
    for index, rule in enumerate(rules):
        where = path.index(index).child("expression")
        if not rule.expression:
            yield field_path.required(where)
        else:
            yield from _rule_errors(rule.expression, where, USER, expressions)


def _rule_errors(text: str, path: FieldPath, variable: str, seen: set[str]) -> Iterator[FieldError]:
    if text in seen:
        yield field_path.duplicate(path, text)
        return
    seen.add(text)
    yield from _compile_errors(text, path, lambda: compile_rule(text, variable))


def _compile_errors(text: str, path: FieldPath, compile_: Callable[[], Program]) -> Iterator[FieldError]:
    try:
        compile_()
    except ExpressionError as error:
        yield field_path.invalid(path, text, str(error))


def _mapping_errors(mappings: ClaimMappings, path: FieldPath) -> Iterator[FieldError]:
    yield from _source_errors(mappings.username, path.child("username"), is_required=True)
    yield from _source_errors(mappings.groups, path.child("groups"), is_required=False)
    uid = mappings.uid
    if uid.claim and uid.expression:
        yield field_path.invalid(path.child("uid"), "", _BOTH)
    elif uid.expression:
        where = path.child("uid", "expression")
        yield from _compile_errors(uid.expression, where, lambda: compile_mapping(uid.expression))
    keys: set[str] = set()
    for index, extra in enumerate(mappings.extra):
        yield from _extra_errors(extra, path.child("extra").index(index), keys)


def _source_errors(source: PrefixedClaimOrExpression, path: FieldPath, *, is_required: bool) -> Iterator[FieldError]:
    if source.claim and source.expression:
        yield field_path.invalid(path, "", _BOTH)
    elif source.expression:
        if source.prefix is not None:
            told = "may not be specified when expression is set"
            yield field_path.invalid(path.child("prefix"), source.prefix, told)
        where = path.child("expression")
        yield from _compile_errors(source.expression, where, lambda: compile_mapping(source.expression))
    elif source.claim and source.prefix is None:
        told = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
        yield field_path.required(path.child("prefix"), told)
    elif not source.claim and is_required:
        yield field_path.required(path, _EITHER)


def _extra_errors(extra: ExtraMapping, path: FieldPath, seen: set[str]) -> Iterator[FieldError]:
    key, where = extra.key, path.child("key")
    yield from validate_domain_prefixed_path(where, key)
    if key != key.lower():
        yield field_path.invalid(where, key, "must be lowercase")
    domain = f".{key.partition('/')[0]}" if "/" in key else ""
    if domain.endswith((".k8s.io", ".kubernetes.io")):
        told = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
        yield field_path.invalid(where, key, told)
    if key in seen:
        yield field_path.duplicate(where, key)
        return
    seen.add(key)
    where = path.child("valueExpression")
    if not extra.value_expression:
        yield field_path.required(where)
    else:
        text = extra.value_expression
        yield from _compile_errors(text, where, lambda: compile_mapping(text))


def _email_errors(config: JWTAuthenticatorConfig, path: FieldPath) -> Iterator[FieldError]:
    """Yield the error for a name from claims.email if nothing looks at claims.email_verified."""
    username = config.claim_mappings.username.expression
    if not _uses(username, "email"):
        return
    others = [
        username,
        *(one.value_expression for one in config.claim_mappings.extra),
        *(one.expression for one in config.claim_validation_rules),
    ]
    if not any(_uses(text, "email_verified") for text in others):
        yield field_path.invalid(path.child("username", "expression"), username, _EMAIL_UNVERIFIED)


def _uses(text: str, claim: str) -> bool:
    if not text:
        return False
    try:
        return selects_field(compile_mapping(text).tree, CLAIMS, claim)
    except ExpressionError:
        return False
