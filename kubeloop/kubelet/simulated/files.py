# SPDX-License-Identifier: Apache-2.0
"""Files of a simulated container, kept in memory for the duration of its run."""

from __future__ import annotations

import io
import posixpath
import tarfile

MAX_TOTAL_BYTES = 16 << 20  # limit of all files of a container together, in bytes
_FOLDERS = ("/", "/bin", "/etc", "/home", "/root", "/tmp", "/usr", "/var")


class FileSystemFull(Exception):
    """Raised if the size limit is exceeded."""


class InMemoryFiles:
    """Files by absolute path, and folders."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._folders = set(_FOLDERS)
        self._size = 0

    def read(self, path: str) -> bytes | None:
        """Return the content of a file, or None."""
        return self._files.get(absolute_path(path))

    def write(self, path: str, data: bytes) -> None:
        """Write a file and create its folders. Raises `FileSystemFull`."""
        path = absolute_path(path)
        size = self._size - len(self._files.get(path, b"")) + len(data)
        if size > MAX_TOTAL_BYTES:
            raise FileSystemFull
        self._size = size
        self._files[path] = data
        self.make_folder(posixpath.dirname(path))

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents."""
        path = absolute_path(path)
        while path not in self._folders:
            self._folders.add(path)
            path = posixpath.dirname(path)

    def remove(self, path: str) -> bool:
        """Remove a file, or a folder with its contents; return False if there was none."""
        path = absolute_path(path)
        gone = [one for one in self._files if one == path or one.startswith(f"{path}/")]
        for one in gone:
            self._size -= len(self._files.pop(one))
        folders = {one for one in self._folders if one == path or one.startswith(f"{path}/")}
        self._folders -= folders
        return bool(gone or folders)

    def is_folder(self, path: str) -> bool:
        """Return True if the path is a folder."""
        return absolute_path(path) in self._folders

    def names_in(self, path: str) -> list[str]:
        """Return the names directly in a folder, sorted."""
        path = absolute_path(path)
        inside = (one for one in (*self._files, *self._folders) if one != "/" and posixpath.dirname(one) == path)
        return sorted(posixpath.basename(one) for one in inside)

    def files_under(self, path: str) -> list[str]:
        """Return the file, or all files under a folder."""
        path = absolute_path(path)
        return sorted(one for one in self._files if one == path or one.startswith(f"{path.rstrip('/')}/"))

    def pack(self, path: str) -> bytes | None:
        """Return a tar archive of a file or folder; None if there is none."""
        if self.read(path) is None and not self.is_folder(path):
            return None
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            if self.is_folder(path):
                folder = tarfile.TarInfo(absolute_path(path).lstrip("/"))
                folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(folder)
            for one in self.files_under(path):
                data = self._files[one]
                entry = tarfile.TarInfo(one.lstrip("/"))
                entry.size, entry.mode = len(data), 0o644
                archive.addfile(entry, io.BytesIO(data))
        return made.getvalue()

    def unpack(self, archive: bytes, folder: str) -> None:
        """Unpack a tar archive into a folder. Raises `tarfile.TarError`, or `FileSystemFull`."""
        with tarfile.open(fileobj=io.BytesIO(archive)) as found:
            for entry in found:
                path = posixpath.join(absolute_path(folder), entry.name)
                if entry.isdir():
                    self.make_folder(path)
                elif (data := found.extractfile(entry)) is not None:
                    self.write(path, data.read())


def absolute_path(path: str) -> str:
    """Return an absolute path; relative paths start at the root."""
    return posixpath.normpath(posixpath.join("/", path))
