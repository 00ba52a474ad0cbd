# SPDX-License-Identifier: Apache-2.0
"""Validation of eviction requests, of evictions, and of the responders that pods name."""
