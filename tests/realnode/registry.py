# SPDX-License-Identifier: Apache-2.0
"""A registry of images (API version 2) that demands a user name and a password, as a program.

    python -m tests.realnode.registry PORT ARCHIVE REPOSITORY=USER:PASSWORD …

Each repository has the image of the archive, for its user only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import tarfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_DOCKER = "application/vnd.docker"


class ImageContent:
    """Manifest and blobs of an archive in the format of `docker save`, by digest."""

    def __init__(self, archive: Path) -> None:
        with tarfile.open(archive) as files:

            def read(name: str) -> bytes:
                found = files.extractfile(name)
                assert found is not None
                return found.read()

            (entry,) = json.loads(read("manifest.json"))
            config, layer = read(entry["Config"]), read(entry["Layers"][0])
        self.blobs = {digest_of(one): one for one in (config, layer)}
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{_DOCKER}.distribution.manifest.v2+json",
            "config": describe(f"{_DOCKER}.container.image.v1+json", config),
            "layers": [describe(f"{_DOCKER}.image.rootfs.diff.tar", layer)],
        }
        self.manifest = json.dumps(manifest).encode()


def digest_of(data: bytes) -> str:
    """Return the digest of a blob."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def describe(media_type: str, data: bytes) -> dict[str, object]:
    """Return the descriptor of a blob."""
    return {"mediaType": media_type, "size": len(data), "digest": digest_of(data)}


def serve(port: int, image: ImageContent, users: dict[str, str]) -> None:
    """Serve repositories; `users` has the credentials of each."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            repository, _, kind = self.path.removeprefix("/v2/").partition("/manifests/")
            if not kind:
                repository, _, kind = repository.partition("/blobs/")
            wanted = users.get(repository, "")
            given = self.headers.get("Authorization", "")
            if not wanted or given != f"Basic {base64.b64encode(wanted.encode()).decode()}":
                self.answer(401, b"{}", {"WWW-Authenticate": 'Basic realm="images"'})
            elif "/manifests/" in self.path:
                digest = {"Docker-Content-Digest": digest_of(image.manifest)}
                self.answer(200, image.manifest, {"Content-Type": json.loads(image.manifest)["mediaType"], **digest})
            elif kind in image.blobs:
                self.answer(200, image.blobs[kind], {"Content-Type": "application/octet-stream"})
            else:
                self.answer(404, b"{}", {})

        do_HEAD = do_GET

        def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(
        int(sys.argv[1]),
        ImageContent(Path(sys.argv[2])),
        dict(one.split("=", 1) for one in sys.argv[3:]),
    )
