# SPDX-License-Identifier: Apache-2.0
"""Watches: writes, then a watch of what happened, with valid and invalid options."""

from __future__ import annotations

import random
from collections.abc import Sequence
from urllib.parse import quote, urlencode

from tools.differential.case import Step
from tools.differential.grammars.draft import MERGE_PATCH, Draft, create, patch, renamed
from tools.differential.options import accept_header
from tools.differential.seeds import Seed

_SELECTORS = ("app=a", "app in (a,b)", "!app", "app=b", "a in ()", "x=y")
# Without a version, a server with an old etcd cannot tell that its cache is current, and times out.
_VERSIONS = ("0", "0", "{rv:0}", "{rv:0}", "{rv:1}", "x", "-1")
_MATCHES = ("NotOlderThan", "NotOlderThan", "Exact", "Other")


def watches(rng: random.Random, seeds: Sequence[Seed]) -> Draft:
    """Return writes of two objects and a watch that begins before, among or after them."""
    seed = rng.choice([one for one in seeds if not one.is_dry_run])
    first, second = (f"{{ns}}-{part}" for part in "ab")
    steps = [create(seed.collection, renamed(seed, first, {"app": "a"}))]
    if rng.random() < 0.7:
        steps.append(create(seed.collection, renamed(seed, second, {"app": "b"})))
    if rng.random() < 0.7:
        label = rng.choice(("b", None))
        body = {"metadata": {"labels": {"app": label}}}
        steps.append(patch(f"{seed.collection}/{first}", MERGE_PATCH, body))
    if rng.random() < 0.4:
        steps.append(Step("DELETE", f"{seed.collection}/{first}", {"gracePeriodSeconds": 0}))
    steps.append(_watch(rng, seed, first))
    paths = (f"{seed.collection}/{first}", f"{seed.collection}/{second}")
    return Draft(tuple(steps), () if seed.resource.is_namespaced else paths)


def _watch(rng: random.Random, seed: Seed, name: str) -> Step:
    options = {"watch": rng.choice(("true", "1", "true", "true"))}
    # Watches of a whole cluster also deliver objects of concurrent cases.
    if not seed.resource.is_namespaced or rng.random() < 0.2:
        options["fieldSelector"] = f"metadata.name={name}"
    if rng.random() < 0.3:
        options["labelSelector"] = rng.choice(_SELECTORS)
    options["resourceVersion"] = rng.choice(_VERSIONS)
    if rng.random() < 0.3:
        options["sendInitialEvents"] = rng.choice(("true", "true", "false"))
    if rng.random() < (0.9 if "sendInitialEvents" in options else 0.1):
        options["resourceVersionMatch"] = rng.choice(_MATCHES)
    if rng.random() < (0.8 if "sendInitialEvents" in options else 0.2):
        options["allowWatchBookmarks"] = rng.choice(("true", "true", "false"))
    if rng.random() < 0.05:
        options["limit"] = "1"
    options["timeoutSeconds"] = "1"
    query = urlencode({key: value for key, value in options.items() if value}, safe="{}:", quote_via=quote)
    headers = accept_header(rng) if rng.random() < 0.3 else {}
    return Step("GET", f"{seed.collection}?{query}", None, headers)
