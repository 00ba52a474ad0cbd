# SPDX-License-Identifier: Apache-2.0
"""Bootstrap tokens of kube-system: read by bootstrap_signer and token_cleaner."""
