# SPDX-License-Identifier: Apache-2.0
"""Public names of the API types: one module per group and version, such as `kubeloop.types.core_v1`.

kubeloop.api.generated ── re-exported by `make generate` ──▶ kubeloop.types.<group>_<version>
Types are frozen structs; `msgspec.structs.replace` makes a changed copy. Only the imported module is loaded.
"""

from __future__ import annotations

from kubeloop.api.scalars.wire import MicroTime, Quantity, Time

__all__ = ["MicroTime", "Quantity", "Time"]
