# SPDX-License-Identifier: Apache-2.0
"""Validation of Ingresses and IngressClasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kubeloop.api.addresses import parse_ip
from kubeloop.api.generated import core_v1, networking_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
    too_long,
)
from kubeloop.api.meta.name_rules import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_path_segment_name,
    check_port_name,
    check_port_number,
    check_wildcard_dns1123_subdomain,
    validate_domain_prefixed_path,
)
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last
from kubeloop.api.validation.shared.objectmeta import byte_length
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import (
    check_errors,
    validate_dns_subdomain,
    validate_legacy_ip,
    validate_unchanged,
)

_SPEC: Final = FieldPath("spec")
_CLASS_ANNOTATION: Final = "kubernetes.io/ingress.class"
_CONTROLLER_MAX: Final = 250
_PATH_TYPES: Final = frozenset(("Exact", "Prefix", "ImplementationSpecific"))
_SCOPES: Final = frozenset(("Cluster", "Namespace"))
_BAD_SEQUENCES: Final = ("//", "/./", "/../", "%2f", "%2F")
_BAD_ENDINGS: Final = ("/..", "/.")
_NOT_AN_IP: Final = "must be a DNS name, not an IP address"


@dataclass(frozen=True)
class _Leniency:
    """Violations that an update may keep because the stored ingress has them."""

    secret_names: bool = False
    wildcard_rules: bool = False


_STRICT: Final = _Leniency()


def _validate_ingress(obj: networking_v1.Ingress) -> FieldErrors:
    errors = _validate_spec(obj.spec, _STRICT)
    annotation = obj.metadata.annotations.get(_CLASS_ANNOTATION)
    if annotation is not None and obj.spec.ingress_class_name not in (None, annotation):
        detail = "must match `ingressClassName` when both are specified"
        errors.append(invalid(FieldPath("annotations").child(_CLASS_ANNOTATION), annotation, detail))
    return errors


def _validate_ingress_update(new: networking_v1.Ingress, old: networking_v1.Ingress) -> FieldErrors:
    lenient = _Leniency(
        secret_names=any(_secret_name_messages(tls.secret_name) for tls in old.spec.tls),
        wildcard_rules=any("*" in rule.host and _validate_http(rule, _SPEC) for rule in old.spec.rules),
    )
    return _validate_spec(new.spec, lenient)


def _validate_spec(spec: networking_v1.IngressSpec, lenient: _Leniency) -> FieldErrors:
    errors: FieldErrors = []
    if spec.default_backend is not None:
        errors += _validate_backend(spec.default_backend, _SPEC.child("defaultBackend"))
    elif not spec.rules:
        errors.append(invalid(_SPEC, None, "either `defaultBackend` or `rules` must be specified"))
    for index, rule in enumerate(spec.rules):
        errors += _validate_rule(rule, _SPEC.child("rules").index(index), lenient)
    for index, tls in enumerate(spec.tls):
        errors += _validate_tls(tls, _SPEC.child("tls").index(index), lenient)
    if spec.ingress_class_name is not None:
        errors += validate_dns_subdomain(spec.ingress_class_name, _SPEC.child("ingressClassName"))
    return errors


def _validate_rule(rule: networking_v1.IngressRule, path: FieldPath, lenient: _Leniency) -> FieldErrors:
    errors: FieldErrors = []
    if rule.host:
        if parse_ip(rule.host) is not None:
            errors.append(invalid(path.child("host"), rule.host, _NOT_AN_IP))
        errors += _validate_host(rule.host, path.child("host"))
    if "*" in rule.host and lenient.wildcard_rules:
        return errors
    return errors + _validate_http(rule, path)


def _validate_host(host: str, path: FieldPath) -> FieldErrors:
    return check_errors(check_wildcard_dns1123_subdomain if "*" in host else check_dns1123_subdomain, host, path)


def _validate_http(rule: networking_v1.IngressRule, path: FieldPath) -> FieldErrors:
    if rule.http is None:
        return []
    at = path.child("http", "paths")
    if not rule.http.paths:
        return [required(at)]
    errors: FieldErrors = []
    for index, http_path in enumerate(rule.http.paths):
        errors += _validate_http_path(http_path, at.index(index))
    return errors


def _validate_http_path(path: networking_v1.HTTPIngressPath, at: FieldPath) -> FieldErrors:
    if path.path_type is None:
        return [required(at.child("pathType"), "pathType must be specified")]
    errors: FieldErrors = []
    if path.path_type not in _PATH_TYPES:
        errors.append(not_supported(at.child("pathType"), path.path_type, _PATH_TYPES))
    else:
        errors += _validate_path_text(path.path, path.path_type != "ImplementationSpecific", at.child("path"))
    return errors + _validate_backend(path.backend, at.child("backend"))


def _validate_path_text(text: str, exact: bool, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if (exact or text) and not text.startswith("/"):
        errors.append(invalid(path, text, "must be an absolute path"))
    if exact:
        errors += [invalid(path, text, f"must not contain '{bad}'") for bad in _BAD_SEQUENCES if bad in text]
        errors += [invalid(path, text, f"cannot end with '{bad}'") for bad in _BAD_ENDINGS if text.endswith(bad)]
    return errors


def _validate_backend(backend: networking_v1.IngressBackend, path: FieldPath) -> FieldErrors:
    if backend.resource is not None and backend.service is not None:
        return [invalid(path, "", "cannot set both resource and service backends")]
    if backend.resource is not None:
        return _validate_reference(backend.resource, path.child("resource"))
    if backend.service is not None:
        return _validate_service(backend.service, path)
    return [invalid(path, "", "resource or service backend is required")]


def _validate_service(service: networking_v1.IngressServiceBackend, path: FieldPath) -> FieldErrors:
    at = path.child("service")
    port = service.port
    errors: FieldErrors = []
    if not service.name:
        errors.append(required(at.child("name")))
    else:
        errors += check_errors(check_dns1123_label, service.name, at.child("name"))
    if port.name and port.number:
        errors.append(invalid(path, "", "cannot set both port name & port number"))
    elif port.name:
        errors += check_errors(check_port_name, port.name, at.child("port", "name"))
    elif port.number:
        number_path = at.child("port", "number")
        errors += [invalid(number_path, port.number, message) for message in check_port_number(port.number)]
    else:
        errors.append(required(path, "port name or number is required"))
    return errors


def _validate_reference(
    reference: core_v1.TypedLocalObjectReference | networking_v1.IngressClassParametersReference, path: FieldPath
) -> FieldErrors:
    errors: FieldErrors = []
    if reference.api_group is not None:
        errors += validate_dns_subdomain(reference.api_group, path.child("apiGroup"))
    for name, value in (("kind", reference.kind), ("name", reference.name)):
        if not value:
            missing = [required(path.child(name))]
            is_class = isinstance(reference, networking_v1.IngressClassParametersReference)
            errors += mark_generated(missing) if is_class else missing
        else:
            errors += check_errors(check_path_segment_name, value, path.child(name))
    return errors


def _validate_tls(tls: networking_v1.IngressTLS, path: FieldPath, lenient: _Leniency) -> FieldErrors:
    errors: FieldErrors = []
    for index, host in enumerate(tls.hosts):
        errors += _validate_host(host, path.child("hosts").index(index))
    if not lenient.secret_names:
        messages = _secret_name_messages(tls.secret_name)
        errors += [invalid(path.child("secretName"), tls.secret_name, message) for message in messages]
    return errors


def _secret_name_messages(name: str) -> list[str]:
    return check_dns1123_subdomain(name) if name else []


def _validate_status(new: networking_v1.Ingress, old: networking_v1.Ingress) -> FieldErrors:
    path = FieldPath("status").child("loadBalancer", "ingress")
    known = [point.ip for point in old.status.load_balancer.ingress]
    errors: FieldErrors = []
    for index, point in enumerate(new.status.load_balancer.ingress):
        at = path.index(index)
        if point.ip:
            errors += validate_legacy_ip(point.ip, at.child("ip"), known)
        if point.hostname:
            errors += validate_dns_subdomain(point.hostname, at.child("hostname"))
            if parse_ip(point.hostname) is not None:
                errors.append(invalid(at.child("hostname"), point.hostname, _NOT_AN_IP))
    return errors


def _validate_class(obj: networking_v1.IngressClass) -> FieldErrors:
    controller = obj.spec.controller
    path = _SPEC.child("controller")
    errors: FieldErrors = []
    if byte_length(controller) > _CONTROLLER_MAX:
        errors.append(too_long(path, _CONTROLLER_MAX))
    errors += validate_domain_prefixed_path(path, controller)
    if obj.spec.parameters is not None:
        errors += _validate_reference(obj.spec.parameters, _SPEC.child("parameters"))
        errors += _validate_scope(obj.spec.parameters, _SPEC.child("parameters"))
    return sort_generated_last(errors)


def _validate_scope(parameters: networking_v1.IngressClassParametersReference, path: FieldPath) -> FieldErrors:
    scope, namespace = parameters.scope, parameters.namespace
    if scope not in (None, *_SCOPES):
        return [not_supported(path.child("scope"), scope, _SCOPES)]
    if scope == "Cluster":
        detail = "`parameters.scope` is set to 'Cluster'"
        return [forbidden(path.child("namespace"), detail)] if namespace is not None else []
    if namespace is None:
        return [required(path.child("namespace"), "`parameters.scope` is set to 'Namespace'")]
    return check_errors(check_dns1123_label, namespace, path.child("namespace"))


def _validate_class_update(new: networking_v1.IngressClass, old: networking_v1.IngressClass) -> FieldErrors:
    errors = validate_unchanged(new.spec.controller, old.spec.controller, _SPEC.child("controller"))
    return errors + _validate_class(new)


INGRESS = ValidationRules(_validate_ingress, _validate_ingress_update, {"status": _validate_status})
INGRESS_CLASS = ValidationRules(_validate_class, _validate_class_update)
