# SPDX-License-Identifier: Apache-2.0
"""nftables through libnftables: scripts in text form, in a worker thread, so that the event loop is not blocked."""

from __future__ import annotations

import asyncio
import ctypes
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from kubeloop.nftables.command import RUN_SECONDS, open_command
from kubeloop.nftables.interface import Nftables, NftablesError, NftablesUnavailable, error_of

LIBRARY: Final = "libnftables.so.1"
_FUNCTIONS: Final = (
    "nft_ctx_new nft_ctx_free nft_ctx_buffer_output nft_ctx_buffer_error nft_ctx_get_output_buffer "
    "nft_ctx_get_error_buffer nft_ctx_set_dry_run nft_run_cmd_from_buffer"
)


class LibNftables:
    """Runs scripts by libnftables, one after the other in one thread; made by `open_library`.

    The context's socket belongs to the network namespace of the thread that calls the constructor.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = _declare(library)
        self._worker = ThreadPoolExecutor(1, "nftables")
        self._context: int | None = self._library.nft_ctx_new(0)
        if not self._context:
            raise NftablesUnavailable("libnftables cannot create a context")
        self._library.nft_ctx_buffer_output(self._context)
        self._library.nft_ctx_buffer_error(self._context)

    async def run(self, script: str, *, check: bool = False) -> str:
        """Run a script as one transaction; a cancelled caller leaves it running to its end."""
        call = asyncio.get_running_loop().run_in_executor(self._worker, self._run, script, check)
        try:
            async with asyncio.timeout(RUN_SECONDS):
                return await asyncio.shield(call)
        except TimeoutError:
            raise NftablesError(f"libnftables has not ended within {RUN_SECONDS:.0f} seconds", script) from None

    async def close(self) -> None:
        """Free the context, after the script that runs."""
        with suppress(RuntimeError):  # closed before
            await asyncio.get_running_loop().run_in_executor(self._worker, self._free)
        self._worker.shutdown(wait=False)

    def _run(self, script: str, check: bool) -> str:
        if self._context is None:
            raise NftablesError("the interface is closed")
        library, context = self._library, self._context
        library.nft_ctx_set_dry_run(context, check)
        failed = library.nft_run_cmd_from_buffer(context, script.encode())
        # Each buffer is emptied when it is read.
        output, messages = library.nft_ctx_get_output_buffer(context), library.nft_ctx_get_error_buffer(context)
        if failed:
            raise error_of((messages or b"").decode(errors="replace"), script)
        return str((output or b"").decode(errors="replace"))

    def _free(self) -> None:
        if self._context is not None:
            self._library.nft_ctx_free(self._context)
            self._context = None


def open_library(name: str = LIBRARY) -> LibNftables:
    """Return the interface to the installed libnftables. Raises `NftablesUnavailable`."""
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise NftablesUnavailable(f"{name} cannot be loaded: {error}") from None
    missing = [function for function in _FUNCTIONS.split() if not hasattr(library, function)]
    if missing:
        raise NftablesUnavailable(f"{name} is too old: it has no {missing[0]}")
    return LibNftables(library)


async def open_nftables(library: str = LIBRARY, program: str = "nft") -> Nftables:
    """Return libnftables, or the program nft if the library is not installed. Raises `NftablesUnavailable`."""
    try:
        return open_library(library)
    except NftablesUnavailable as first:
        try:
            return await open_command(program)
        except NftablesUnavailable as second:
            raise NftablesUnavailable(f"{second} ({first})") from None


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Declare the types of the functions: without them, pointers would be cut to 32 bits."""
    pointer, flag, text = ctypes.c_void_p, ctypes.c_bool, ctypes.c_char_p
    library.nft_ctx_new.argtypes, library.nft_ctx_new.restype = (ctypes.c_uint32,), pointer
    library.nft_ctx_free.argtypes, library.nft_ctx_free.restype = (pointer,), None
    for name in ("nft_ctx_buffer_output", "nft_ctx_buffer_error"):
        function = getattr(library, name)
        function.argtypes, function.restype = (pointer,), ctypes.c_int
    for name in ("nft_ctx_get_output_buffer", "nft_ctx_get_error_buffer"):
        function = getattr(library, name)
        function.argtypes, function.restype = (pointer,), text
    library.nft_ctx_set_dry_run.argtypes, library.nft_ctx_set_dry_run.restype = (pointer, flag), None
    library.nft_run_cmd_from_buffer.argtypes = (pointer, text)
    library.nft_run_cmd_from_buffer.restype = ctypes.c_int
    return library
