# SPDX-License-Identifier: Apache-2.0
"""Permissions that a write requires besides its verb: those that upstream checks in the storage of a kind."""
