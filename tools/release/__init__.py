# SPDX-License-Identifier: Apache-2.0
"""Builds distributions and checks that a release can be made."""
