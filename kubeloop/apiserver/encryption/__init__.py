"""Objects that lie in the store encrypted: between the server, which sees them plain, and the store, which never does.

EncryptionConfiguration ─▶ configuration: which resources, which providers, which keys
                             └▶ transformers: plain ⇄ k8s:enc:PROVIDER:v1:KEY:…  (providers: aescbc, aesgcm, secretbox)
server ⇄ store: writes with the first key, reads with any, and remembers what it has read ⇄ the store itself
"""
