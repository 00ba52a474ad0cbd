# SPDX-License-Identifier: Apache-2.0
"""Relations between owners and their dependents.

event ─▶ dependents: keys of owners ─▶ queue. controller_revisions: history of templates for StatefulSet, DaemonSet.
template_hash: pod-template-hash. protection: finalizers that block deletion while in use. namespaces: phases.
"""
