# SPDX-License-Identifier: Apache-2.0
"""Validation of volume attachments."""

from __future__ import annotations

from typing import Final

from kubeloop.api.generated import storage_v1
from kubeloop.api.meta.field_path import (
    FieldErrors,
    FieldPath,
    forbidden,
    invalid,
    required,
    too_long,
    too_long_characters,
)
from kubeloop.api.meta.name_rules import range_message
from kubeloop.api.validation.shared.declarative import mark_generated, sort_generated_last, validate_immutable
from kubeloop.api.validation.shared.formats import validate_caseless_long_name
from kubeloop.api.validation.shared.objectmeta import byte_length, total_size
from kubeloop.api.validation.shared.rules import ValidationRules
from kubeloop.api.validation.shared.scalars import validate_dns_subdomain
from kubeloop.api.validation.storage.persistent_volumes import validate_inline_volume_spec

_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")
_ATTACHER_MAX: Final = 63
_METADATA_MAX: Final = 256 * 1024
_MESSAGE_MAX: Final = 1024
_EXACTLY_ONE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def _validate_attachment(obj: storage_v1.VolumeAttachment) -> FieldErrors:
    return sort_generated_last(_attachment_errors(obj))


def _attachment_errors(obj: storage_v1.VolumeAttachment) -> FieldErrors:
    errors = mark_generated(_validate_attacher(obj.spec.attacher, _SPEC.child("attacher")))
    errors += _validate_source(obj.spec.source, _SPEC.child("source"))
    errors += validate_dns_subdomain(obj.spec.node_name, _SPEC.child("nodeName"))
    return errors + _validate_status(obj.status)


def _validate_attacher(name: str, path: FieldPath) -> FieldErrors:
    if not name:
        return [required(path)]
    errors: FieldErrors = [too_long_characters(path, _ATTACHER_MAX)] if len(name) > _ATTACHER_MAX else []
    return errors + validate_caseless_long_name(name, path)


def _validate_source(source: storage_v1.VolumeAttachmentSource, path: FieldPath) -> FieldErrors:
    name = source.persistent_volume_name
    errors: FieldErrors = []
    if name is None and source.inline_volume_spec is None:
        errors.append(required(path, _EXACTLY_ONE))
    elif name is not None and source.inline_volume_spec is not None:
        errors.append(forbidden(path, _EXACTLY_ONE))
    elif source.inline_volume_spec is not None:
        errors += validate_inline_volume_spec(source.inline_volume_spec, path.child("inlineVolumeSpec"))
    elif name == "":
        errors.append(required(path.child("persistentVolumeName"), "must specify non empty persistentVolumeName"))
    if name is not None:
        errors += validate_dns_subdomain(name, path.child("persistentVolumeName"))
    return errors


def _validate_status(status: storage_v1.VolumeAttachmentStatus) -> FieldErrors:
    errors: FieldErrors = []
    if total_size(status.attachment_metadata) > _METADATA_MAX:
        errors.append(too_long(_STATUS.child("attachmentMetadata"), _METADATA_MAX))
    for name, problem in (("attachError", status.attach_error), ("detachError", status.detach_error)):
        if problem is not None:
            errors += _validate_problem(problem, _STATUS.child(name))
    return errors


def _validate_problem(problem: storage_v1.VolumeError, path: FieldPath) -> FieldErrors:
    errors: FieldErrors = []
    if byte_length(problem.message) > _MESSAGE_MAX:
        errors.append(too_long(path.child("message"), _MESSAGE_MAX))
    if problem.error_code is not None and problem.error_code < 0:
        errors.append(invalid(path.child("errorCode"), problem.error_code, range_message(0, 2**31 - 1)))
    return errors


def _validate_update(new: storage_v1.VolumeAttachment, old: storage_v1.VolumeAttachment) -> FieldErrors:
    # A changed spec is an error that ends declarative validation.
    return _attachment_errors(new) + validate_immutable(new.spec, old.spec, _SPEC)


VOLUME_ATTACHMENT = ValidationRules(_validate_attachment, _validate_update, {"status": _validate_update})
