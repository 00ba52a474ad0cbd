# SPDX-License-Identifier: Apache-2.0
"""Graceful shutdown of a real node.

logind ──PrepareForShutdown──▶ manager: node not ready ─ groups of pods by priority, one after another ─▶ lock released
dbus_wire, dbus_connection: messages and connection of D-Bus. logind: the calls. shutdown_groups: the policy, pure.
"""
