# SPDX-License-Identifier: Apache-2.0
"""`kubeloop snapshot save|restore|fork` and `kubeloop migrate`: copies of a cluster's state."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import sys
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from kubeloop.api.errors import ApiError
from kubeloop.apiserver.background.event_expiry import EVENTS_PREFIX
from kubeloop.apiserver.peers.endpoint_reconciler import PREFIX as LIVE_SERVERS
from kubeloop.cli.local_clusters.registry import DEFAULT_NAME, ClusterRegistry
from kubeloop.cli.program.output import add_output_flag, format_document
from kubeloop.client.config.server_config import load_config
from kubeloop.client.errors import ClientError
from kubeloop.client.http.transport import HttpTransport
from kubeloop.clock import SystemClock
from kubeloop.store.backup.fork import fork_sqlite
from kubeloop.store.backup.migrate import RestoreOptions, move, restore, save
from kubeloop.store.backup.snapshot import read_snapshot
from kubeloop.store.errors import StoreError

_Outcome = tuple[dict[str, Any], str]  # what was done, for programs and for people
_STORE: Final = "store.db"
_SAVE_EXAMPLES: Final = """Examples:
  # The cluster named kubeloop, running or stopped
  kubeloop snapshot save monday.snapshot

  # A running cluster through its API
  kubeloop snapshot save monday.snapshot --kubeconfig ~/.kube/config
"""
_RESTORE_EXAMPLES: Final = """Examples:
  # Into the data folder of the stopped cluster kubeloop
  kubeloop snapshot restore monday.snapshot --force

  # Into etcd
  kubeloop snapshot restore monday.snapshot --store etcd://127.0.0.1:2379
"""
_FORK_EXAMPLES: Final = """Examples:
  # A copy of a cluster, which can then be started with --data-dir
  kubeloop snapshot fork ~/.local/state/kubeloop/clusters/kubeloop ./copy
  kubeloop up --data-dir ./copy --name copy
"""
_SNAPSHOT_EXAMPLES: Final = """Examples:
  # Save the cluster named kubeloop, and go back to that state later
  kubeloop snapshot save monday.snapshot
  kubeloop stop
  kubeloop snapshot restore monday.snapshot --force
"""
_MIGRATE_EXAMPLES: Final = """Examples:
  # From one file to an etcd
  kubeloop migrate --from sqlite:store.db --to etcd://127.0.0.1:2379
"""
_BUMP: Final = 1_000_000  # more than the writes between two snapshots worth restoring
_EVENT_SECONDS: Final = 3600.0
_BEGIN_SECONDS: Final = 300.0  # a server writes all of it down before it sends the first of it


def add_snapshot_flags(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `snapshot` and their flags."""
    parser.epilog = _SNAPSHOT_EXAMPLES
    actions = parser.add_subparsers(required=True)
    saving = _add_action(actions, "save", "Write a snapshot, without stopping a running server", _SAVE_EXAMPLES)
    restoring = _add_action(actions, "restore", "Restore a store from a snapshot", _RESTORE_EXAMPLES)
    for one in (saving, restoring):
        one.add_argument("file", type=Path, help="snapshot file")
        where = one.add_mutually_exclusive_group()
        where.add_argument("--store", default="", metavar="URL", help="store: sqlite:PATH or etcd://HOST:PORT")
        _add_data_dir(where)
        if one is saving:
            about = "kubeconfig of a running server to snapshot over its API; also works for in-memory stores"
            where.add_argument("--kubeconfig", type=Path, metavar="FILE", help=about)
    _add_force(restoring)
    restoring.add_argument(
        "--bump-revision",
        type=int,
        default=_BUMP,
        metavar="N",
        help="add N to the snapshot's resourceVersion, so that versions seen by clients are not reused (default: "
        f"{_BUMP})",
    )
    forking = _add_action(actions, "fork", "Copy a data folder at its current state", _FORK_EXAMPLES)
    forking.add_argument("source", type=Path, help="data folder of a server, which may be running")
    forking.add_argument("target", type=Path, help="new data folder")
    for one in (saving, restoring, forking):
        add_output_flag(one)


def _add_action(actions: Any, name: str, about: str, examples: str) -> argparse.ArgumentParser:
    added: argparse.ArgumentParser = actions.add_parser(name, help=about, description=f"{about}.", epilog=examples)
    return added


def add_migrate_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `migrate`."""
    parser.epilog = _MIGRATE_EXAMPLES
    parser.add_argument(
        "--from", dest="source", required=True, metavar="URL", help="source store: sqlite:PATH or etcd://HOST:PORT"
    )
    parser.add_argument(
        "--to", dest="target", required=True, metavar="URL", help="target store, in the same form; must be empty"
    )
    _add_force(parser)
    add_output_flag(parser)


def _add_data_dir(group: argparse._MutuallyExclusiveGroup) -> None:
    about = f"data folder of `kubeloop up` (default: {ClusterRegistry().data_dir(DEFAULT_NAME)})"
    group.add_argument("--data-dir", type=Path, metavar="DIR", help=about)


def _add_force(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--force", action="store_true", help="replace existing data of the store")


def run_snapshot(options: argparse.Namespace) -> int:
    """Run `snapshot`; returns the exit code."""
    return _print({"save": _save, "restore": _restore, "fork": _fork}[options.action](options), options.output)


def run_migrate(options: argparse.Namespace) -> int:
    """Run `migrate`; returns the exit code."""
    return _print(_migrate(options), options.output)


def _print(work: Coroutine[Any, Any, _Outcome], output: str) -> int:
    """Do the work and print what was done; returns the exit code."""
    try:
        document, text = asyncio.run(work)
        print(format_document(document, output) if output else text)
    except (StoreError, ApiError, ClientError, OSError) as error:
        print(f"kubeloop: {error}", file=sys.stderr)
        return 1
    return 0


async def _save(options: argparse.Namespace) -> _Outcome:
    if options.kubeconfig is not None:
        revision = await _fetch(options.kubeconfig, options.file)
    else:
        revision = await save(_url(options), str(options.file))
    return {"file": str(options.file), "revision": revision}, f"{options.file}: revision {revision}"


async def _fetch(kubeconfig: Path, file: Path) -> int:
    transport = HttpTransport(load_config(str(kubeconfig)), SystemClock())
    try:
        with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:
            part = Path(folder) / file.name
            with part.open("xb") as written:
                async for piece in transport.stream_path("/kubeloop/snapshot", _BEGIN_SECONDS):
                    written.write(piece)
            return await asyncio.to_thread(_take_over, part, file)
    finally:
        await transport.close()


def _take_over(part: Path, file: Path) -> int:
    """Move a complete snapshot to its final name without overwriting; returns its revision."""
    revision = read_snapshot(str(part)).revision
    try:
        file.hardlink_to(part)
    except FileExistsError:
        raise StoreError(f"cannot write the snapshot: {file} exists") from None
    return revision


async def _restore(options: argparse.Namespace) -> _Outcome:
    url = _url(options)
    if not options.store:
        _folder(options).mkdir(parents=True, exist_ok=True)
    how = RestoreOptions(options.bump_revision, options.force, (LIVE_SERVERS,), ((EVENTS_PREFIX, _EVENT_SECONDS),))
    revision = await restore(str(options.file), url, how)
    return _moved(str(options.file), url, revision), f"{url}: restored; the next revision follows {revision}"


async def _migrate(options: argparse.Namespace) -> _Outcome:
    how = RestoreOptions(0, options.force, (LIVE_SERVERS,), ((EVENTS_PREFIX, _EVENT_SECONDS),))
    revision = await move(options.source, options.target, how)
    text = f"{options.target}: migrated; the next revision follows {revision}"
    return _moved(options.source, options.target, revision), text


async def _fork(options: argparse.Namespace) -> _Outcome:
    await asyncio.to_thread(_fork_folder, options.source, options.target)
    document = {"source": str(options.source), "target": str(options.target)}
    return document, f"{options.target}: forked from {options.source}"


def _moved(source: str, target: str, revision: int) -> dict[str, Any]:
    return {"source": source, "target": target, "revision": revision}


def _fork_folder(source: Path, target: Path) -> None:
    """Copy a data folder with keys, but without files of the running process."""
    if not (source / _STORE).exists():
        raise StoreError(f"{source} is not a data folder: {_STORE} is missing")
    if target.exists() and any(target.iterdir()):
        raise StoreError(f"{target} exists and is not empty")
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(f"{_STORE}*", "*.lock"), dirs_exist_ok=True)
    fork_sqlite(str(source / _STORE), str(target / _STORE))


def _url(options: argparse.Namespace) -> str:
    given: str = options.store
    return given or f"sqlite:{_folder(options) / _STORE}"


def _folder(options: argparse.Namespace) -> Path:
    folder: Path = options.data_dir or ClusterRegistry().data_dir(DEFAULT_NAME)
    return folder
