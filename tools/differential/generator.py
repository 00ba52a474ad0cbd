# SPDX-License-Identifier: Apache-2.0
"""Generator of cases: draws a grammar and lets it write the case."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence

from tools.differential.case import Case
from tools.differential.grammars import WEIGHTS, Grammar
from tools.differential.seeds import Seed


class CaseGenerator:
    """Generates the case of a number: the same for the same seed, whatever was generated before."""

    def __init__(self, seeds: Sequence[Seed], seed: int, weights: Mapping[Grammar, int] = WEIGHTS) -> None:
        self._seeds = seeds
        self._seed = seed
        self._grammars = tuple(weights)
        self._weights = tuple(weights.values())

    def case(self, number: int) -> Case:
        """Return the case with this number."""
        rng = random.Random(f"{self._seed}:{number}")
        (grammar,) = rng.choices(self._grammars, self._weights)
        draft = grammar(rng, self._seeds)
        return Case(f"{grammar.__name__}:{self._seed}:{number}", draft.steps, draft.cleanup)


def canonical(case: Case) -> str:
    """Return a case as one line of JSON."""
    return json.dumps(case.to_json(), sort_keys=True)
