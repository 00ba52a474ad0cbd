# SPDX-License-Identifier: Apache-2.0
"""etcd v3 store, shared by any number of API servers.

write ─▶ pending_writes.py: speculative at once ─▶ transactions.py: one transaction compares the key's revision ─▶ etcd
                                                                                   │ watch of everything
get, range, subscribers ◀── Committed: keyspace, history ◀── replica.py: resumes, fails over ◀┘
wait_current() ─▶ revision_query.py: a linearizable read returns etcd's revision, which the replica has to reach
"""
