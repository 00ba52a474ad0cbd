"""Custom resources: from a definition in the store to objects that are served like any other's.

definition changes ─ service ─┬─ naming:     which names it gets, and the conditions that say so
                              ├─ resource:   one Resource a served version, with its rules
                              ├─ storage:    views, selectors and the strategy of its objects
                              ├─ columns:    its table
                              └─ cleanup:    a deleted definition takes its objects with it
the server ◀── tables of resources, swapped as a whole
"""
