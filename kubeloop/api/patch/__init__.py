"""From a stored object and a client's patch to the object it should become.

    object ──┬── json_patch: a list of operations (RFC 6902) ──────────────┐
             ├── merge: an object laid over the object (RFC 7386) ─────────┼──▶ new object, or a PatchError
             └── strategic: the same, but lists merge as the schema says ──┘

Values are plain JSON (dict, list, str, int, float, bool, None). Nothing handed in is ever changed: what a patch leaves
alone is shared between the old object and the new one, and a patch that changes nothing gives the object back as it is.
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
