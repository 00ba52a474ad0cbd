"""The shape that all strategies share: what a resource keeps, counts and drops, told as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from kubeloop.api.codec import force_setattr
from kubeloop.api.strategy.equality import means_the_same

FieldPath = tuple[str, ...]
ResetFields = Mapping[str, tuple[FieldPath, ...]]

# Which fields a write to the main resource ("") or to a subresource can't set; server-side apply doesn't own them.
RESETS_STATUS_ONLY: ResetFields = {"": (("status",),)}
RESETS_SPEC: ResetFields = {"": (("status",),), "status": (("spec",),)}
RESETS_METADATA: ResetFields = {"": (("status",),), "status": (("metadata",), ("spec",))}

# What a status update leaves alone in metadata, on resources that guard it; managedFields do follow the update.
STATUS_METADATA = (
    "deletion_timestamp",
    "self_link",
    "labels",
    "annotations",
    "finalizers",
    "owner_references",
)


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One resource's rules. `refine*` are what only this resource does; `old` is None when it is being created."""

    has_status: bool = False
    # Attributes whose change makes a new generation; the first one is 1.
    generation_of: tuple[str, ...] = ()
    # The same for a resource whose generation stays unset until its first change.
    bumps_only: tuple[str, ...] = ()
    # The generation is 1 and stays so.
    starts_at_one: bool = False
    status_keeps: tuple[str, ...] = ()
    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True
    reset_fields: ResetFields = field(default_factory=dict)
    # The only fields a subresource may set, where that is the shorter thing to say; "*" is any list item.
    settable_fields: ResetFields = field(default_factory=dict)
    # The rules are those of the version that a client speaks, not of the one that is stored.
    validated_as_served: bool = False
    # What happens to dependents when the client doesn't say: Delete, Orphan, or Unsupported.
    garbage_collection: str = "Delete"
    # How many seconds a deletion waits, from the object and what the client asked for; None deletes at once.
    grace_period: Callable[[Any, int | None], int] | None = None
    refine: Callable[[Any, Any], None] | None = None
    refine_status: Callable[[Any, Any], None] | None = None
    other_updates: Mapping[str, Callable[[Any, Any], None]] = field(default_factory=dict)
    # What needs the present moment; called after any of the others, with old as None on create.
    stamp: Callable[[Any, Any, str], None] | None = None
    # What tells who created the object: their name, uid, groups and extra.
    name_author: Callable[[Any, str, str, tuple[str, ...], Mapping[str, tuple[str, ...]]], None] | None = None

    def prepare_create(self, obj: Any) -> None:
        """Drop what a client can't say about an object that doesn't exist yet."""
        if self.has_status:
            force_setattr(obj, "status", type(obj.status)())
        if self.generation_of or self.starts_at_one:
            force_setattr(obj.metadata, "generation", 1)
        if self.refine is not None:
            self.refine(obj, None)

    def prepare_update(self, new: Any, old: Any) -> None:
        """Keep what a write to the main resource can't change."""
        if self.has_status:
            force_setattr(new, "status", old.status)
        if self.refine is not None:
            self.refine(new, old)
        count_generation(new, old, self.generation_of or self.bumps_only)

    def prepare_status_update(self, new: Any, old: Any) -> None:
        """Keep what a write to the status can't change."""
        if hasattr(new, "spec"):
            force_setattr(new, "spec", old.spec)
        for name in self.status_keeps:
            force_setattr(new.metadata, name, getattr(old.metadata, name))
        force_setattr(new.metadata, "generation", old.metadata.generation)
        if self.refine_status is not None:
            self.refine_status(new, old)


def count_generation(new: Any, old: Any, attributes: tuple[str, ...]) -> None:
    """The generation is the server's: one more than before if any of the attributes differs."""
    changed = any(not means_the_same(attrgetter(name)(new), attrgetter(name)(old)) for name in attributes)
    force_setattr(new.metadata, "generation", old.metadata.generation + changed)
