# SPDX-License-Identifier: Apache-2.0
"""NodeRestriction: limits the writes of kubelets to their own node and its pods.

restriction (plugin) ──▶ labels (protected labels), mirror_pods (pod creation), tokens (audiences, certificates)
"""
