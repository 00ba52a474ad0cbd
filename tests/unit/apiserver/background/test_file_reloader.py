# SPDX-License-Identifier: Apache-2.0
"""Files that a running server reads again."""

from __future__ import annotations

import asyncio
import logging
import ssl

import pytest

from kubeloop.apiserver.authentication import RequestHeaderConfig
from kubeloop.apiserver.background.file_reloader import FileReloader, RetryReload
from kubeloop.apiserver.bootstrap.extension_apiserver_authentication import NAME, NAMESPACE
from kubeloop.apiserver.server import ApiServerConfig, start_server
from kubeloop.cli.pki.files import ensure_pki
from kubeloop.clock import SystemClock


class RecordingTarget:
    """Records contents, or fails as told."""

    def __init__(self):
        self.contents = []
        self.error = None

    def __call__(self, contents):
        if self.error is not None:
            raise self.error
        self.contents.append(contents)


@pytest.fixture
def applied():
    return RecordingTarget()


def test_changed_content_is_applied_once(tmp_path, applied):
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("1")
    second.write_text("2")
    reloader = FileReloader("files", [first, second], applied)
    reloader.check()
    assert applied.contents == []
    second.write_text("3")
    reloader.check()
    reloader.check()
    assert applied.contents == [(b"1", b"3")]


def test_missing_or_empty_file_is_no_change(tmp_path, applied):
    path = tmp_path / "a"
    path.write_text("1")
    reloader = FileReloader("file", [path], applied)
    for damage in (path.unlink, lambda: path.write_text("")):
        damage()
        reloader.check()
    path.write_text("1")
    reloader.check()
    assert applied.contents == []


def test_rejected_content_is_not_applied_again_but_a_new_one_is(tmp_path, applied, caplog):
    path = tmp_path / "a"
    path.write_text("1")
    reloader = FileReloader("thing", [path], applied)
    path.write_text("2")
    applied.error = ValueError("senseless")
    reloader.check()
    applied.error = None
    reloader.check()
    assert applied.contents == []
    assert "the thing stays as it was: senseless" in caplog.messages
    path.write_text("3")
    reloader.check()
    assert applied.contents == [(b"3",)]


def test_content_that_may_become_usable_is_tried_again(tmp_path, applied):
    path = tmp_path / "a"
    path.write_text("1")
    reloader = FileReloader("thing", [path], applied)
    path.write_text("2")
    applied.error = RetryReload("not yet")
    reloader.check()
    applied.error = None
    reloader.check()
    assert applied.contents == [(b"2",)]


def test_reload_that_waits_is_not_started_twice(tmp_path, caplog):
    caplog.set_level(logging.INFO)

    async def main():
        path = tmp_path / "a"
        path.write_text("1")
        started, go_on = [], asyncio.Event()

        async def apply(contents):
            started.append(contents)
            await go_on.wait()
            if contents == (b"2",):
                raise ValueError("senseless")

        reloader = FileReloader("thing", [path], apply)
        for text in ("2", "3"):
            path.write_text(text)
            reloader.check()
            reloader.check()
            go_on.set()
            await reloader.wait_applied()
            go_on.clear()
        assert started == [(b"2",), (b"3",)]
        assert "the thing stays as it was: senseless" in caplog.messages
        assert "reloaded the thing" in caplog.messages
        path.write_text("4")
        reloader.check()
        reloader.close()
        await asyncio.sleep(0)

    asyncio.run(main())


def names_of(tmp_path, name):
    return ensure_pki(tmp_path / name, ["127.0.0.1"], SystemClock().now())


async def served_certificate(port, authority, client=None):
    """The server's certificate, if a client with these files is let in."""
    context = ssl.create_default_context(cafile=authority)
    if client is not None:
        context.load_cert_chain(*client)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    try:
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        if not (await reader.read()).startswith(b"HTTP/1.1 "):
            raise ssl.SSLError("refused")
        return writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.close()


async def eventually(check):
    """Try again while it raises."""
    for _ in range(2_000):
        try:
            return await check()
        except (OSError, AssertionError):
            await asyncio.sleep(0.01)
    return await check()


def test_server_uses_changed_certificates_and_authorities(tmp_path, monkeypatch):
    monkeypatch.setattr("kubeloop.apiserver.server.CHECK_SECONDS", 0.01)
    old, new = names_of(tmp_path, "old"), names_of(tmp_path, "new")
    files = {name: tmp_path / name for name in ("crt", "key", "ca", "proxy-ca")}
    pairs = (("serving_certificate", "crt"), ("serving_key", "key"), ("ca", "ca"), ("front_proxy_ca", "proxy-ca"))

    def install(pki):
        for source, target in pairs:
            files[target].write_bytes(getattr(pki, source).read_bytes())

    async def main():
        install(old)
        config = ApiServerConfig(
            port=0,
            certificate=files["crt"],
            key=files["key"],
            client_authorities=(files["ca"],),
            front_proxy=RequestHeaderConfig(files["proxy-ca"]),
        )
        server = await start_server(config, SystemClock())
        try:
            clients = {pki: (pki.admin_certificate, pki.admin_key) for pki in (old, new)}
            await served_certificate(server.port, old.ca, clients[old])
            with pytest.raises(OSError, match=r"."):
                await served_certificate(server.port, old.ca, clients[new])
            install(new)
            await eventually(lambda: served_certificate(server.port, new.ca, clients[new]))
            with pytest.raises(OSError, match=r"."):
                await served_certificate(server.port, new.ca, clients[old])

            async def published():
                data = server.app.registry.get_object("configmaps", NAMESPACE, NAME).data
                assert new.ca.read_text().strip() in data["client-ca-file"]
                assert new.front_proxy_ca.read_text().strip() in data["requestheader-client-ca-file"]

            await eventually(published)
            files["crt"].write_text("nonsense")
            await asyncio.sleep(0.05)
            await served_certificate(server.port, new.ca, clients[new])
        finally:
            await server.close()

    asyncio.run(main())
