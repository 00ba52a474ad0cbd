# SPDX-License-Identifier: Apache-2.0
"""Generic registry: stored objects of each resource, and the steps of create, update and delete.

handlers ──▶ store.ObjectStore: existing_object, field_manager, admission, validation ──▶ storage ──▶ kubeloop.store
storage: serializer (bytes ↔ structs), selector_fields (list and watch selectors), watch.hub, allocation (Services)
create_signature, pod_create_cache: shortcut for pods of one template; consistency: resourceVersion semantics.
"""
