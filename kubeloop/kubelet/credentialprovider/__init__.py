# SPDX-License-Identifier: Apache-2.0
"""Credentials of image registries, in the order in which pulls try them.

pull secrets of the pod ─┐
config.json of the node ─┼─▶ keyring: entries whose registry and path match the image ─▶ image manager
plugins: exec, cache ────┘
"""
