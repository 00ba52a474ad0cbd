# SPDX-License-Identifier: Apache-2.0
"""Object metadata that controllers have in common.

keys.py: the key that queues hold. owner_references.py: references and patches ─▶ controller_ref_manager.py: claims
finalizers.py adds and removes finalizers. patcher.py: the client interface of both.
"""
