"""How long a failed key waits before its next try: by its own failures, and by all retries together."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from kubeloop.clock import Clock

Key = TypeVar("Key")
AnyKey = TypeVar("AnyKey", contravariant=True)

FIRST_DELAY = 0.005
LONGEST_DELAY = 1000.0
RETRIES_PER_SECOND = 10.0
RETRY_BURST = 100
_ENOUGH_DOUBLINGS = 64  # past every sensible limit, and 2**64 still fits a float


class RateLimiter(Protocol[AnyKey]):
    """Decides when a key may be tried again."""

    def when(self, key: AnyKey) -> float:
        """Seconds to wait for this try; each call counts as one."""

    def forget(self, key: AnyKey) -> None:
        """The key has succeeded, or was given up: its failures no longer count."""

    def retries(self, key: AnyKey) -> int:
        """How often the key has failed since it was last forgotten."""


class ItemExponential(Generic[Key]):
    """Each failure of a key doubles its delay."""

    def __init__(self, base: float = FIRST_DELAY, longest: float = LONGEST_DELAY) -> None:
        self._base = base
        self._longest = longest
        self._failures: dict[Key, int] = {}  # only keys that have failed since they were last forgotten

    def when(self, key: Key) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        return min(self._longest, self._base * 2.0 ** min(failures, _ENOUGH_DOUBLINGS))

    def forget(self, key: Key) -> None:
        self._failures.pop(key, None)

    def retries(self, key: Key) -> int:
        return self._failures.get(key, 0)


class Bucket:
    """All keys share tokens that come at a steady rate; who finds none waits for the token that will be theirs."""

    def __init__(self, clock: Clock, qps: float = RETRIES_PER_SECOND, burst: int = RETRY_BURST) -> None:
        self._clock = clock
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)  # at `_as_of`; never above the burst, below zero by as much as is promised already
        self._as_of = clock.monotonic()

    def when(self, _key: object) -> float:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._as_of) * self._qps) - 1
        self._as_of = now
        return max(0.0, -self._tokens / self._qps)

    def forget(self, _key: object) -> None:
        """Tokens are spent for good."""

    def retries(self, _key: object) -> int:
        return 0


class MaxOf(Generic[Key]):
    """The most patient of several."""

    def __init__(self, *limiters: RateLimiter[Key]) -> None:
        self._limiters = limiters

    def when(self, key: Key) -> float:
        return max(limiter.when(key) for limiter in self._limiters)

    def forget(self, key: Key) -> None:
        for limiter in self._limiters:
            limiter.forget(key)

    def retries(self, key: Key) -> int:
        return max(limiter.retries(key) for limiter in self._limiters)


def default_limiter(clock: Clock) -> RateLimiter[object]:
    """client-go's default for controllers."""
    return MaxOf[object](ItemExponential[object](), Bucket(clock))
