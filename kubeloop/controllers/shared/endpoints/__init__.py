"""What the loops that say where a service is served share: which pods it has, what they offer, what was written.

pod ── selection: which services select it? ── pace: not too often ──▶ queue ──▶ a loop
                                                                                  │ offers: addresses and ports
              slice_memory: what the caches have to show first ◀── writer ◀───────┘
"""
