# SPDX-License-Identifier: Apache-2.0
"""Admission plugins for claims, volumes and storage classes."""
