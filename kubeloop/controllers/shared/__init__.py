"""Code that several controllers share.

pods: pod creation, deletion order, disruption condition, batching. ownership: claiming, revisions, finalizers.
endpoints: Service to pod selection and EndpointSlice bookkeeping. certificates: signing. tokens: bootstrap tokens.
status_writer and patch_or_update write objects for accounts that may not patch; own_writes waits for the caches.
"""
