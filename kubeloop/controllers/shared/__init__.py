# SPDX-License-Identifier: Apache-2.0
"""Code that several controllers share.

pods: pod creation, deletion order, disruption condition, batching. ownership: claiming, revisions, finalizers.
endpoints: Service to pod selection and EndpointSlice bookkeeping. certificates: signing. tokens: bootstrap tokens.
"""
