# SPDX-License-Identifier: Apache-2.0
"""Work queue of controllers.

informer handler ─▶ enqueue.py: keys with origins ─▶ workqueue.py ─▶ worker; rate_limiters.py delays retries
expectations.py: creations and deletions not yet in the cache. slow_start.py: batches. backoff.py: restart delays.
"""
