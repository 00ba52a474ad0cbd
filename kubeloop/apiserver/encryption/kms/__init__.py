# SPDX-License-Identifier: Apache-2.0
"""KMS v2 encryption provider: data keys are derived from a seed that a plugin encrypts with a key of its own.

plugin ─ gRPC over a Unix socket ─▶ client.KmsClient ─▶ provider.KmsProvider: seed, key ID, probes, data keys ─▶ values
messages: the plugin's messages, and the stored EncryptedObject
"""
