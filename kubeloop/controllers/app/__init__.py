# SPDX-License-Identifier: Apache-2.0
"""Assembly of the controller manager: from the selected controllers to a running manager.

config (flags) ─▶ build ─▶ context for each controller ─▶ its wire() ─▶ runtime.Manager
ensure_crds wraps a controller that declares custom kinds; disabled stands in for one that flags turn off.
standalone runs a user's controllers as a program of their own, without the rest of the manager.
"""
