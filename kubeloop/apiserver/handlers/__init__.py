# SPDX-License-Identifier: Apache-2.0
"""Handlers of resource requests, one module per verb: from an authorized request to its response.

app ──▶ read (get, list, watch), write (create, update, patch), delete ──▶ registry ──▶ response.writers
write ──▶ patch, partial_patch, apply; subresources: scale, binding, eviction, token, reviews, proxy, logs
virtual_group answers for groups that are computed on request.
"""
