# SPDX-License-Identifier: Apache-2.0
"""Strategy class: the fields that a resource keeps, counts and drops, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from kubeloop.api.codec import force_setattr
from kubeloop.api.features.gates import Features
from kubeloop.api.strategy.equality import is_semantically_equal

FieldNames = tuple[str, ...]
DropDisabled = Callable[[Any, Any, Features], None]
ResetFields = Mapping[str, tuple[FieldNames, ...]]

# Fields that a write to the main resource ("") or a subresource can't set; server-side apply doesn't own them.
RESETS_STATUS_ONLY: ResetFields = {"": (("status",),)}
RESETS_SPEC: ResetFields = {"": (("status",),), "status": (("spec",),)}
RESETS_METADATA: ResetFields = {"": (("status",),), "status": (("metadata",), ("spec",))}

# Metadata that a status update keeps, on resources that protect it; managedFields do follow the update.
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
    """Strategy of one resource, with hooks for what is specific to it; `old` is None on create.

    Hooks that ask feature gates (`drop_disabled*`, `subresource_updates`) get the features of the server.
    """

    has_status: bool = False
    # Attributes whose change increments the generation; it starts at 1.
    generation_of: tuple[str, ...] = ()
    # The same for a resource whose generation is unset until its first change.
    generation_after_change: tuple[str, ...] = ()
    # The generation is always 1.
    has_constant_generation: bool = False
    status_preserved_meta: tuple[str, ...] = ()
    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True
    reset_fields: ResetFields = field(default_factory=dict)
    # Only fields that a subresource may set, where that is shorter to list; "*" is any list item.
    settable_fields: ResetFields = field(default_factory=dict)
    # No step of an update sets a field within the old object, which may therefore be a struct that readers share.
    preserves_old: bool = False
    # Validation uses the served version, not the storage version.
    validated_as_served: bool = False
    # Default propagation policy: Delete, Orphan, or Unsupported.
    garbage_collection: str = "Delete"
    # Returns the grace period in seconds for an object and a requested value; None deletes at once.
    grace_period: Callable[[Any, int | None], int] | None = None
    # Clears fields of disabled features that the old object doesn't use; called before `refine`.
    drop_disabled: DropDisabled | None = None
    drop_disabled_status: DropDisabled | None = None
    refine: Callable[[Any, Any], None] | None = None
    refine_status: Callable[[Any, Any], None] | None = None
    subresource_updates: Mapping[str, Callable[[Any, Any, Features], None]] = field(default_factory=dict)
    # Sets fields that need the current time; called after the others, with old as None on create.
    set_timestamps: Callable[[Any, Any, str], None] | None = None
    # Applies defaults to a validated new object that upstream applies when it decodes what is stored.
    default_stored: Callable[[Any], None] | None = None
    # Sets the creator: username, uid, groups and extra.
    set_creator: Callable[[Any, str, str, tuple[str, ...], Mapping[str, tuple[str, ...]]], None] | None = None

    def prepare_create(self, obj: Any, features: Features) -> None:
        """Drop the fields that a client can't set on create."""
        if self.has_status:
            force_setattr(obj, "status", type(obj.status)())
        if self.generation_of or self.has_constant_generation:
            force_setattr(obj.metadata, "generation", 1)
        if self.drop_disabled is not None:
            self.drop_disabled(obj, None, features)
        if self.refine is not None:
            self.refine(obj, None)

    def prepare_update(self, new: Any, old: Any, features: Features) -> None:
        """Restore the fields that a write to the main resource can't change."""
        if self.has_status:
            force_setattr(new, "status", old.status)
        if self.drop_disabled is not None:
            self.drop_disabled(new, old, features)
        if self.refine is not None:
            self.refine(new, old)
        count_generation(new, old, self.generation_of or self.generation_after_change)

    def prepare_status_update(self, new: Any, old: Any, features: Features) -> None:
        """Restore the fields that a write to the status can't change."""
        if hasattr(new, "spec"):
            force_setattr(new, "spec", old.spec)
        for name in self.status_preserved_meta:
            force_setattr(new.metadata, name, getattr(old.metadata, name))
        force_setattr(new.metadata, "generation", old.metadata.generation)
        if self.drop_disabled_status is not None:
            self.drop_disabled_status(new, old, features)
        if self.refine_status is not None:
            self.refine_status(new, old)


def count_generation(new: Any, old: Any, attributes: tuple[str, ...]) -> None:
    """Set the generation: one more than before if any of the attributes differs."""
    generation = old.metadata.generation
    for name in attributes:
        read = attrgetter(name)
        if not is_semantically_equal(read(new), read(old)):
            generation += 1
            break
    force_setattr(new.metadata, "generation", generation)
