"""What the server writes into an object's metadata: on creation, on update, when it is being deleted. Pure.

Works in place on objects that were just decoded and that nobody has seen yet.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from kubeloop.api.codec import force_setattr
from kubeloop.api.scalars.times import format_time, parse_time
from kubeloop.api.scalars.wire import Time

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_MAX_NAME = 63
_SUFFIX = 5


def time_of(moment: datetime) -> Time:
    return Time(format_time(moment))


def fill_for_create(meta: Any, namespace: str, uid: str, now: datetime) -> None:
    """What a client can't decide about a new object."""
    force_setattr(meta, "namespace", namespace)
    force_setattr(meta, "uid", uid)
    force_setattr(meta, "creation_timestamp", time_of(now))
    force_setattr(meta, "deletion_timestamp", None)
    force_setattr(meta, "deletion_grace_period_seconds", None)
    force_setattr(meta, "self_link", "")


def generated_name(base: str, suffix: str) -> str:
    """A name from `generateName`: the base is cut so that the whole stays a valid label."""
    return base[: _MAX_NAME - _SUFFIX] + suffix


def carry_over(new: Any, old: Any) -> None:
    """What an update can't change about an existing object's metadata."""
    force_setattr(new, "self_link", "")
    if not new.uid:
        force_setattr(new, "uid", old.uid)
    if old.creation_timestamp is not None:
        force_setattr(new, "creation_timestamp", old.creation_timestamp)
    if old.deletion_timestamp is not None:
        force_setattr(new, "deletion_timestamp", old.deletion_timestamp)
    if old.deletion_grace_period_seconds is not None and new.deletion_grace_period_seconds is None:
        force_setattr(new, "deletion_grace_period_seconds", old.deletion_grace_period_seconds)


def drop_duplicate_owners(meta: Any) -> bool:
    """Keeps the first of equal owner references; whether there were any."""
    unique = tuple(dict.fromkeys(meta.owner_references))
    if len(unique) == len(meta.owner_references):
        return False
    force_setattr(meta, "owner_references", unique)
    return True


def mark_deleting(meta: Any, now: datetime, grace_seconds: int) -> None:
    """Sets the moment by which an object must be gone; its first marking is a new generation."""
    force_setattr(meta, "deletion_timestamp", time_of(now + timedelta(seconds=grace_seconds)))
    force_setattr(meta, "deletion_grace_period_seconds", grace_seconds)
    if meta.generation > 0:
        force_setattr(meta, "generation", meta.generation + 1)


def shorten_grace(meta: Any, grace_seconds: int) -> None:
    """A later delete may only make an earlier one quicker."""
    begun = parse_time(meta.deletion_timestamp) - timedelta(seconds=meta.deletion_grace_period_seconds)
    force_setattr(meta, "deletion_timestamp", time_of(begun + timedelta(seconds=grace_seconds)))
    force_setattr(meta, "deletion_grace_period_seconds", grace_seconds)


def finalizers_for_policy(finalizers: tuple[str, ...], orphan: bool, foreground: bool) -> tuple[str, ...]:
    """The finalizers by which the garbage collector knows what to do with dependents."""
    kept = [one for one in finalizers if one not in (ORPHAN, FOREGROUND)]
    if orphan:
        kept.append(ORPHAN)
    if foreground:
        kept.append(FOREGROUND)
    return finalizers if set(kept) == set(finalizers) else tuple(kept)


def done_deleting(new: Any, old: Any) -> bool:
    """Whether an update took the last finalizer off an object whose deletion was waiting for that."""
    if new.finalizers or old.deletion_timestamp is None:
        return False
    return not old.deletion_grace_period_seconds


def held_by_spec(obj: Any) -> bool:
    """A namespace also has finalizers in its spec, which the loop that empties it takes off."""
    return bool(getattr(getattr(obj, "spec", None), "finalizers", ()))
