# SPDX-License-Identifier: Apache-2.0
"""Resolves names and classes to resources.

Client.resource ─▶ rest_mapper.py: the table of built-in kinds ─▶ discovery.py: other resources, cached
served_resources.py: full discovery, for controllers such as the garbage collector and the namespace controller
"""
