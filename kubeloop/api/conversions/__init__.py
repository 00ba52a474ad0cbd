# SPDX-License-Identifier: Apache-2.0
"""Conversions between versions of kinds that are served in more than one; `api.conversion` looks them up."""
