# SPDX-License-Identifier: Apache-2.0
"""Rules of one version of a custom resource: schema, pruning, defaulting and validation."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from kubeloop.api import codec
from kubeloop.api.meta.field_path import ErrorType, FieldErrors, FieldPath, invalid
from kubeloop.api.patch.gotext import go_text, go_type
from kubeloop.api.schema import SchemaNode
from kubeloop.api.structural.defaulting import apply_schema_defaults
from kubeloop.api.structural.embedded import prune_embedded_metadata, validate_embedded
from kubeloop.api.structural.fast_validation import Accepts, acceptor_of
from kubeloop.api.structural.instance import CustomResourceObject
from kubeloop.api.structural.model import Schema, Structural
from kubeloop.api.structural.pruning import drop_nulls, prune
from kubeloop.api.structural.schema_nodes import node_of_schema
from kubeloop.api.structural.unique_lists import validate_unique_lists
from kubeloop.api.structural.validation import SchemaValidator
from kubeloop.api.validation.shared.kind_names import NameRule
from kubeloop.api.validation.shared.objectmeta import validate_meta, validate_meta_update

_STATUS = FieldPath("status")
_MAX_REPLICAS = 2**31 - 1
# Rules assume that a value has the form of its schema.
_BLOCKING = frozenset(
    (ErrorType.NOT_SUPPORTED, ErrorType.REQUIRED, ErrorType.TOO_LONG, ErrorType.TOO_MANY, ErrorType.TYPE_INVALID)
)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


class ScalePaths(NamedTuple):
    """Paths of the fields that back the scale subresource, as names below the root."""

    spec_replicas: tuple[str, ...]
    status_replicas: tuple[str, ...]
    selector: tuple[str, ...] = ()


class VersionRules:
    """Rules of one version; the schema is parsed on first use, since most definitions have few objects."""

    def __init__(
        self, stored_version: str, namespaced: bool, schema: bytes, *, has_status: bool, scale: ScalePaths | None = None
    ) -> None:
        self.stored_version = stored_version
        self.has_status = has_status
        self.scale = scale
        self._names = NameRule(namespaced=namespaced, standard_finalizers=False)
        self.source = schema

    @cached_property
    def schema(self) -> Schema:
        """Decoded OpenAPI schema."""
        schema: Schema = msgspec.json.decode(self.source)
        return schema

    @cached_property
    def structural(self) -> Structural:
        """Structural schema."""
        return Structural(self.schema, root=True)

    @cached_property
    def node(self) -> SchemaNode:
        """Schema node for patches and server-side apply."""
        return node_of_schema(self.schema)

    def prune_and_default(self, document: dict[str, Any]) -> list[str]:
        """Prune and default a document in place; returns the paths of unknown fields."""
        structural = self.structural
        unknown = prune(document, structural)
        drop_nulls(document, structural)
        if structural.has_embedded:
            unknown += prune_embedded_metadata(document, structural)
        apply_schema_defaults(document, structural)
        return unknown

    # -- validation -------------------------------------------------------------------------------------------------

    @cached_property
    def _checks_metadata(self) -> bool:
        return bool((self.schema.get("properties") or {}).get("metadata", {}).get("properties"))

    @cached_property
    def _checker(self) -> SchemaValidator:
        schema = dict(self.schema)
        if not self._checks_metadata:  # a struct is always an object
            schema["properties"] = {
                name: one for name, one in (schema.get("properties") or {}).items() if name != "metadata"
            }
        return SchemaValidator(schema)

    @cached_property
    def _accepts(self) -> Accepts:
        """Function that is True for a whole object in which `_checker` would find nothing."""
        schema = dict(self.schema)
        properties = dict(schema.get("properties") or {})
        if not self._checks_metadata:
            properties.pop("metadata", None)
        return acceptor_of({**schema, "properties": properties})

    @cached_property
    def _status_checker(self) -> SchemaValidator:
        return SchemaValidator((self.schema.get("properties") or {}).get("status", {}))

    def _document(self, obj: CustomResourceObject) -> dict[str, Any]:
        return {**obj, "metadata": codec.to_plain(obj.metadata)} if self._checks_metadata else obj

    def validate_create(self, obj: CustomResourceObject) -> FieldErrors:
        """Validate a new object."""
        errors = validate_meta(obj.metadata, self._names)
        document = self._document(obj)
        errors += [] if self._accepts(document) else self._checker.validate(document)
        errors += self._scale_problems(obj, ("spec", "status"))
        errors += validate_embedded(obj, self.structural)
        errors += validate_unique_lists(obj, self.structural)
        return errors + self._broken_rules(obj, None, errors)

    def validate_update(self, new: CustomResourceObject, old: CustomResourceObject, subresource: str) -> FieldErrors:
        """Validate an object that replaces an old one, directly or through a subresource."""
        errors = validate_meta_update(new.metadata, old.metadata, self._names)
        if subresource == "status":
            if "status" in new:
                errors += self._status_checker.validate_update(new["status"], old.get("status"), _STATUS)
            errors += self._scale_problems(new, ("status",))
        else:
            document = self._document(new)
            if not self._accepts(document):
                errors += self._checker.validate_update(document, self._document(old))
            errors += self._scale_problems(new, ("spec", "status"))
            errors += validate_embedded(new, self.structural)
        repeated = validate_unique_lists(new, self.structural)
        if repeated and not validate_unique_lists(old, self.structural):
            errors += repeated
        return errors + self._broken_rules(new, old, errors)

    @cached_property
    def _has_rules(self) -> bool:
        return b'"x-kubernetes-validations"' in self.source

    def _broken_rules(
        self, new: CustomResourceObject, old: CustomResourceObject | None, known: FieldErrors
    ) -> FieldErrors:
        if not self._has_rules:
            return []
        from kubeloop.api.structural.cel.compiled_rules import rules_of  # only for schemas with rules
        from kubeloop.api.structural.cel.rule_evaluation import evaluate_rules

        rules = rules_of(self.source)
        if rules is None:
            return []
        if any(error.type in _BLOCKING for error in known):
            return [invalid(None, None, _UNCHECKED)]
        verdict = evaluate_rules(rules, _seen_by_rules(new), _seen_by_rules(old) if old is not None else None)
        new.ratcheted_errors = verdict.ratcheted
        return verdict.errors

    def _scale_problems(self, obj: CustomResourceObject, parts: tuple[str, ...]) -> FieldErrors:
        if self.scale is None:
            return []
        errors: FieldErrors = []
        if "spec" in parts:
            errors += _replicas_problems(obj, self.scale.spec_replicas)
        errors += _replicas_problems(obj, self.scale.status_replicas)
        selector = value_at(obj, self.scale.selector) if self.scale.selector else None
        if parent := _parent_error(obj, self.scale.selector):
            errors.append(invalid(_dotted(self.scale.selector), "", parent))
        elif selector is not None and not isinstance(selector, str):
            errors.append(invalid(_dotted(self.scale.selector), "", _accessor_error(self.scale.selector, selector)))
        return errors


def _seen_by_rules(obj: CustomResourceObject) -> dict[str, Any]:
    """Return an object as rules see it: with only the names in its metadata."""
    meta = obj.metadata
    names = {"name": meta.name, "generateName": meta.generate_name}
    return {**obj, "metadata": {name: value for name, value in names.items() if value}}


def value_at(document: Any, names: tuple[str, ...]) -> Any:
    """Return the value at a path of names; None if it is absent."""
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _dotted(names: tuple[str, ...]) -> FieldPath:
    return FieldPath("." + ".".join(names))


def _replicas_problems(obj: CustomResourceObject, names: tuple[str, ...]) -> FieldErrors:
    if parent := _parent_error(obj, names):
        return [invalid(_dotted(names), 0, parent)]
    replicas = value_at(obj, names)
    if replicas is None:
        return []
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        return [invalid(_dotted(names), 0, _accessor_error(names, replicas))]
    if replicas < 0:
        return [invalid(_dotted(names), replicas, "should be a non-negative integer")]
    if replicas > _MAX_REPLICAS:
        return [invalid(_dotted(names), replicas, f"should be less than or equal to {_MAX_REPLICAS}")]
    return []


def _parent_error(document: Any, names: tuple[str, ...]) -> str:
    """Return Go's message if a value above a path's end is no object; empty otherwise."""
    for index, name in enumerate(names):
        if document is None:
            return ""
        if not isinstance(document, dict):
            shown = f"{go_text(document)} is of the type {go_type(document)}"
            return f".{'.'.join(names[: index + 1])} accessor error: {shown}, expected map[string]interface{{}}"
        document = document.get(name)
    return ""


def _accessor_error(names: tuple[str, ...], value: Any) -> str:
    wanted = "int64" if not isinstance(value, int) or isinstance(value, bool) else "string"
    return f".{'.'.join(names)} accessor error: {go_text(value)} is of the type {go_type(value)}, expected {wanted}"
