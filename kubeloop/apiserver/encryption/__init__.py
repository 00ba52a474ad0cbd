# SPDX-License-Identifier: Apache-2.0
"""Encryption at rest: encrypts objects between the server and the store.

EncryptionConfiguration ─▶ configuration: resources, providers, keys
                             └▶ transformers: plain ⇄ k8s:enc:PROVIDER:v1:KEY:…  (providers: aescbc, aesgcm, secretbox)
server ⇄ store.EncryptedStore: writes with the first key, reads with any, caches decrypted records ⇄ the store itself
"""
