"""Generic registry: stored objects of each resource, and the steps of create, update and delete.

handlers ──▶ store.Mutations: existing, field_manager, admission, validation ──▶ storage.Storage ──▶ kubeloop.store
storage: serializer (bytes ↔ structs), selector_fields (list and watch selectors), watch.hub, allocation (Services)
pod_create_cache and storage.PodSpecInterner are shortcuts for equal pods; consistency adds resourceVersion semantics.
"""
