"""Code that the Endpoints and EndpointSlice controllers share: pod selection, addresses and ports, written slices.

pod event ─▶ selection: Services that select it ─▶ pace: delay ─▶ work queue ─▶ controller
controller ─▶ offers: addresses and ports of pods ─▶ writer ─▶ slice_memory: versions that the cache must reach
"""
