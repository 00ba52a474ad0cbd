# SPDX-License-Identifier: Apache-2.0
"""Records why each write was made.

informer handler ─▶ Origin ─▶ work queue merges origins ─▶ Cause (cause.py), current during a reconcile
transport.py attaches the cause to each write; journal.py keeps the latest reconciles for people.
"""
