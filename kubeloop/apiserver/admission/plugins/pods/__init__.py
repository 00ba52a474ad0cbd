# SPDX-License-Identifier: Apache-2.0
"""Admission plugins for pods."""
