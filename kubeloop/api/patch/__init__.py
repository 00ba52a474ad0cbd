# SPDX-License-Identifier: Apache-2.0
"""Application of a client's patch to a stored object.

    object ──┬── json_patch: a list of operations (RFC 6902) ─────────────────┐
             ├── merge: JSON merge patch (RFC 7386) ──────────────────────────┼──▶ new object, or a PatchError
             └── strategic: merge patch whose lists merge as the schema says ─┘

Values are plain JSON (dict, list, str, int, float, bool, None). Inputs are never changed: unchanged parts are shared
between the old object and the new one, and a patch that changes nothing returns the object itself.
"""

from kubeloop.api.patch.errors import BadPatch, PatchError, PatchFailed, PatchRejected, PatchTooLarge
from kubeloop.api.patch.json_patch import apply_json_patch
from kubeloop.api.patch.merge import apply_merge_patch
from kubeloop.api.patch.strategic import apply_strategic_merge_patch

__all__ = [
    "BadPatch",
    "PatchError",
    "PatchFailed",
    "PatchRejected",
    "PatchTooLarge",
    "apply_json_patch",
    "apply_merge_patch",
    "apply_strategic_merge_patch",
]
