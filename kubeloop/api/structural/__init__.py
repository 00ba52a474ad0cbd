"""Custom resources as data: what a structural schema says of an object, as pure functions.

schema ─ model ─▶ Structural ─┬─ pruning:    what nobody declared goes
                              ├─ defaulting: what is missing and has a default comes
                              ├─ validation: what is wrong, in upstream's words
                              └─ typing:     the Node that patches and server-side apply walk along
schema ─ checks ─▶ why a definition's schema is refused
document ─▶ Instance: an object of a custom resource
"""
