# SPDX-License-Identifier: Apache-2.0
"""Grammars: each writes cases about one subject.

seeds ──▶ grammar (drawn by weight) ──▶ draft: steps, cleanup ──▶ case
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tools.differential.grammars.admission_policies import admission_policies
from tools.differential.grammars.apply_conflicts import apply_conflicts
from tools.differential.grammars.custom_resources import custom_resources
from tools.differential.grammars.delete_collections import delete_collections
from tools.differential.grammars.draft import Draft
from tools.differential.grammars.objects import objects
from tools.differential.grammars.permissions import permissions
from tools.differential.grammars.protobuf_bodies import protobuf_bodies
from tools.differential.grammars.representations import representations
from tools.differential.grammars.watches import watches
from tools.differential.seeds import Seed

Grammar = Callable[[random.Random, Sequence[Seed]], Draft]

# How many cases of a hundred a grammar writes; those that wait for the server have few.
WEIGHTS: Final[Mapping[Grammar, int]] = {
    objects: 48,
    apply_conflicts: 12,
    custom_resources: 8,
    permissions: 8,
    delete_collections: 7,
    representations: 6,
    protobuf_bodies: 6,
    admission_policies: 3,
    watches: 2,
}
