# SPDX-License-Identifier: Apache-2.0
"""Built-in admission plugins, one module per plugin, named as upstream names them.

built_in.built_in_plugins ──▶ plugins; each reads other objects through admission.Lookup
node: NodeRestriction and its rules; quota: LimitRanger and ResourceQuota; pod_security: PodSecurity
"""
