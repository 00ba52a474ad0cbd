"""etcd v3 as the store, shared by any number of API servers.

write ─▶ pending: speculative at once, one transaction a key's newest revision ─▶ etcd
                                                                                   │ watch of everything
get, range, subscribers ◀── Committed: keyspace, history ◀── feed: resumes, fails over ◀┘
current() ─▶ a linearizable read tells etcd's revision; the feed has to reach it
"""
