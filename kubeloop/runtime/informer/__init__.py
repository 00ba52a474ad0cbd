# SPDX-License-Identifier: Apache-2.0
"""Shared informers: local caches of API collections.

list_watch.py (Source) ─▶ reflector.py, driven by reflector_states.py ─▶ Informer (informer.py)
Informer ─▶ store.py: cache with indexes; equivalence_groups.py: grouped counts ─▶ event_handlers.py: notifications
"""
