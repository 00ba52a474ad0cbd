# SPDX-License-Identifier: Apache-2.0
"""Metadata that the server sets on create, update and delete. Pure.

Works in place on objects that were just decoded and are not shared yet.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from kubeloop.api.codec import force_setattr
from kubeloop.api.meta.field_path import quote
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.api.scalars.wire import Time

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_MAX_NAME = 63
_SUFFIX = 5
_MAX_UINT64_DIGITS = 20


def parse_resource_version(text: str) -> int:
    """Parse a resourceVersion; an empty one is 0. Raises ValueError with the message of Go's parser."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: invalid syntax")
    digits = text.lstrip("0") or "0"  # Python refuses to convert thousands of digits
    if len(digits) > _MAX_UINT64_DIGITS or (number := int(digits)) >= 2**64:
        raise ValueError(f"strconv.ParseUint: parsing {quote(text)}: value out of range")
    return number


def time_of(moment: datetime) -> Time:
    """Return a metav1.Time of a moment."""
    return Time(format_time(moment))


def fill_system_fields(meta: Any, namespace: str, uid: str, now: datetime) -> None:
    """Set the metadata of a new object that clients can't choose."""
    force_setattr(meta, "namespace", namespace)
    force_setattr(meta, "uid", uid)
    force_setattr(meta, "creation_timestamp", time_of(now))
    force_setattr(meta, "deletion_timestamp", None)
    force_setattr(meta, "deletion_grace_period_seconds", None)
    force_setattr(meta, "self_link", "")


def generate_name(base: str, suffix: str) -> str:
    """Return a name from `generateName`; the base is cut so that the result stays a valid label."""
    return base[: _MAX_NAME - _SUFFIX] + suffix


def preserve_on_update(new: Any, old: Any) -> None:
    """Restore the metadata that an update can't change from the existing object."""
    force_setattr(new, "self_link", "")
    if not new.uid:
        force_setattr(new, "uid", old.uid)
    if old.creation_timestamp is not None:
        force_setattr(new, "creation_timestamp", old.creation_timestamp)
    if old.deletion_timestamp is not None:
        force_setattr(new, "deletion_timestamp", old.deletion_timestamp)
    if old.deletion_grace_period_seconds is not None and new.deletion_grace_period_seconds is None:
        force_setattr(new, "deletion_grace_period_seconds", old.deletion_grace_period_seconds)


def deduplicate_owner_references(meta: Any) -> bool:
    """Keep the first of equal owner references; returns True if there were duplicates."""
    unique = tuple(dict.fromkeys(meta.owner_references))
    if len(unique) == len(meta.owner_references):
        return False
    force_setattr(meta, "owner_references", unique)
    return True


def set_deletion_timestamp(meta: Any, now: datetime, grace_seconds: int) -> None:
    """Set the deletion timestamp and grace period; increments the generation if it is set."""
    force_setattr(meta, "deletion_timestamp", time_of(now + timedelta(seconds=grace_seconds)))
    force_setattr(meta, "deletion_grace_period_seconds", grace_seconds)
    if meta.generation > 0:
        force_setattr(meta, "generation", meta.generation + 1)


def shorten_grace_period(meta: Any, grace_seconds: int, now: datetime) -> None:
    """Shorten the grace period of an object that is being deleted; if it is over already, to one second, or to zero."""
    begun = parse_time(meta.deletion_timestamp) - timedelta(seconds=meta.deletion_grace_period_seconds)
    end = begun + timedelta(seconds=grace_seconds)
    if end < now:
        end, grace_seconds = now, min(grace_seconds, 1)
    force_setattr(meta, "deletion_timestamp", time_of(end))
    force_setattr(meta, "deletion_grace_period_seconds", grace_seconds)


def finalizers_for_policy(finalizers: tuple[str, ...], orphan: bool, foreground: bool) -> tuple[str, ...]:
    """Return the finalizers that select the garbage collector's propagation policy."""
    kept = [one for one in finalizers if one not in (ORPHAN, FOREGROUND)]
    if orphan:
        kept.append(ORPHAN)
    if foreground:
        kept.append(FOREGROUND)
    return finalizers if set(kept) == set(finalizers) else tuple(kept)


def should_delete_during_update(new: Any, old: Any) -> bool:
    """Return True if an update removed the last finalizer from an object whose deletion waited for it."""
    if new.finalizers or old.deletion_timestamp is None:
        return False
    return not old.deletion_grace_period_seconds


def has_spec_finalizers(obj: Any) -> bool:
    """Return True if the spec has finalizers: those of a namespace, removed by the namespace controller."""
    return bool(getattr(getattr(obj, "spec", None), "finalizers", ()))
