# SPDX-License-Identifier: Apache-2.0
"""CredentialProviderConfig: files, decoding and validation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubeloop.cli.kubelet.credential_providers import read_credential_plugins
from kubeloop.kubelet.credentialprovider.provider_config import (
    CredentialProvider,
    ProviderConfigError,
    decode_providers,
    validate_providers,
)

V1 = "credentialprovider.kubelet.k8s.io/v1"
PROVIDER = {"name": "p", "matchImages": ["*.reg.io:80/x"], "defaultCacheDuration": "1m", "apiVersion": V1}
TOKENS = {"serviceAccountTokenAudience": "a", "cacheType": "Token", "requireServiceAccount": True}


def config(*providers: dict[str, Any], version: str = "v1") -> dict[str, Any]:
    about = {"kind": "CredentialProviderConfig", "apiVersion": f"kubelet.config.k8s.io/{version}"}
    return {**about, "providers": list(providers)}


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_all_versions_are_decoded(version: str) -> None:
    env = [{"name": "A", "value": "1"}]
    (found,) = decode_providers(config({**PROVIDER, "args": ["x"], "env": env}, version=version))
    assert (found.name, found.match_images, found.default_cache_duration) == ("p", ("*.reg.io:80/x",), 60)
    assert (found.args, [(one.name, one.value) for one in found.env]) == (("x",), [("A", "1")])
    assert not validate_providers((found,), allows_tokens=False)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ([], "not an object"),
        ({"apiVersion": "kubelet.config.k8s.io/v1"}, "'Kind' is missing"),
        ({"kind": "CredentialProviderConfig"}, "'apiVersion' is missing"),
        ({**config(), "kind": "KubeletConfiguration"}, r'failed to decode "KubeletConfiguration" \(wrong Kind\)'),
        ({**config(), "apiVersion": "kubelet.config.k8s.io/v2"}, "no kind .* is registered for version"),
        (config({**PROVIDER, "more": 1}), "strict decoding error: .*more"),
        (config({**PROVIDER, "defaultCacheDuration": "x"}), "strict decoding error"),
        (config({**PROVIDER, "tokenAttributes": TOKENS}, version="v1beta1"), 'unknown field "tokenAttributes"'),
    ],
)
def test_documents_that_are_refused(document: Any, problem: str) -> None:
    with pytest.raises(ProviderConfigError, match=problem):
        decode_providers(document)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": "a/b"}, "providers.name: Invalid value: \"a/b\": provider name cannot contain '/'"),
        ({"name": "a b"}, 'providers.name: Invalid value: "a b": provider name cannot contain spaces'),
        ({"name": "."}, "providers.name: Invalid value: \".\": provider name cannot be '.'"),
        ({"name": ".."}, "providers.name: Invalid value: \"..\": provider name cannot be '..'"),
        ({"apiVersion": ""}, "providers.apiVersion: Required value"),
        (
            {"apiVersion": "x"},
            'providers.apiVersion: Unsupported value: "x": supported values: '
            '"credentialprovider.kubelet.k8s.io/v1", "credentialprovider.kubelet.k8s.io/v1alpha1", '
            '"credentialprovider.kubelet.k8s.io/v1beta1"',
        ),
        ({"matchImages": []}, "providers.matchImages: Required value: at least 1 item in matchImages is required"),
        (
            {"matchImages": ["%foo/bar"]},
            'providers.matchImages: Invalid value: "%foo/bar": match image is invalid: parse "https://%foo/bar": '
            'invalid character "%" in host name',
        ),
        ({"defaultCacheDuration": None}, "providers.defaultCacheDuration: Required value"),
        (
            {"defaultCacheDuration": "-1m"},
            'providers.defaultCacheDuration: Invalid value: "-1m0s": must be greater than or equal to 0',
        ),
    ],
)
def test_validation(fields: dict[str, Any], problem: str) -> None:
    found = decode_providers(config({**PROVIDER, **fields}))
    assert [str(one) for one in validate_providers(found, allows_tokens=True)] == [problem]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"serviceAccountTokenAudience": ""}, "serviceAccountTokenAudience: Required value"),
        ({"requireServiceAccount": None}, "requireServiceAccount: Required value"),
        ({"cacheType": ""}, "cacheType: Required value: cacheType is required to be set when tokenAttributes is"),
        ({"cacheType": "x"}, 'cacheType: Unsupported value: "x": supported values: "ServiceAccount", "Token"'),
        (
            {"requireServiceAccount": False, "requiredServiceAccountAnnotationKeys": ["a"]},
            "requiredServiceAccountAnnotationKeys: Forbidden: requireServiceAccount cannot be false when",
        ),
        (
            {"requiredServiceAccountAnnotationKeys": ["a", "a"]},
            'requiredServiceAccountAnnotationKeys: Duplicate value: "a"',
        ),
        (
            {"optionalServiceAccountAnnotationKeys": ["-"]},
            'optionalServiceAccountAnnotationKeys: Invalid value: "-": name part must consist of',
        ),
    ],
)
def test_validation_of_tokens(fields: dict[str, Any], problem: str) -> None:
    found = decode_providers(config({**PROVIDER, "tokenAttributes": {**TOKENS, **fields}}))
    (error,) = validate_providers(found, allows_tokens=True)
    assert str(error).startswith(f"providers.tokenAttributes.{problem}")


def test_tokens_are_for_one_version_and_behind_a_gate() -> None:
    keys = {"requiredServiceAccountAnnotationKeys": ["A.io/b"], "optionalServiceAccountAnnotationKeys": ["A.io/b"]}
    old = "credentialprovider.kubelet.k8s.io/v1beta1"
    found = decode_providers(config({**PROVIDER, "apiVersion": old, "tokenAttributes": {**TOKENS, **keys}}))
    messages = [str(one) for one in validate_providers(found, allows_tokens=False)]
    gate = "KubeletServiceAccountTokenForCredentialProviders"
    path = "providers.tokenAttributes: "
    assert messages[:2] == [
        f"{path}Forbidden: tokenAttributes is not supported when {gate} feature gate is disabled",
        f"{path}Forbidden: tokenAttributes is only supported for {V1} API version",
    ]
    assert messages[2].endswith("annotation keys cannot be both required and optional")


def test_at_least_one_plugin_is_needed() -> None:
    (error,) = validate_providers((), allows_tokens=True)
    assert str(error) == "providers: Required value: at least 1 item in plugins is required"


class TestFiles:
    """Files of the configuration, and programs."""

    def read(self, folder: Path, path: Path | str) -> tuple[CredentialProvider, ...]:
        programs = folder / "bin"
        programs.mkdir(exist_ok=True)
        for name in ("p", "q"):
            (programs / name).touch(mode=0o755)
        return read_credential_plugins(str(path), str(programs), allows_tokens=True).providers

    def test_one_file(self, tmp_path: Path) -> None:
        file = tmp_path / "config"
        file.write_text(json.dumps(config(PROVIDER)))
        assert [one.name for one in self.read(tmp_path, file)] == ["p"]
        assert read_credential_plugins("", "", allows_tokens=True).providers == ()

    def test_the_files_of_a_folder_are_merged_in_their_order(self, tmp_path: Path) -> None:
        folder = tmp_path / "providers"
        (folder / "sub.yaml").mkdir(parents=True)
        with pytest.raises(ProviderConfigError, match="no configuration files found in directory"):
            self.read(tmp_path, folder)
        (folder / "b.yaml").write_text(json.dumps(config(PROVIDER)))
        (folder / "a.json").write_text(json.dumps(config({**PROVIDER, "name": "q"})))
        (folder / "c.txt").write_text("{")
        assert [one.name for one in self.read(tmp_path, folder)] == ["q", "p"]
        (folder / "d.yml").write_text(json.dumps(config(PROVIDER)))
        with pytest.raises(ProviderConfigError, match='duplicate provider name "p" found'):
            self.read(tmp_path, folder)

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            ("{", 'error decoding config ".*/config": '),
            (f"{json.dumps(config(PROVIDER))[:-1]}, 'kind': 'x'}}", "strict decoding error"),
            (json.dumps(config()), "failed to validate credential provider config: providers: Required value"),
            (json.dumps(config({**PROVIDER, "name": "missing"})), "plugin binary executable .*/missing did not exist"),
        ],
    )
    def test_malformed_files(self, tmp_path: Path, content: str, problem: str) -> None:
        (tmp_path / "config").write_text(content)
        with pytest.raises(ProviderConfigError, match=problem):
            self.read(tmp_path, tmp_path / "config")

    def test_paths_that_do_not_exist(self, tmp_path: Path) -> None:
        with pytest.raises(ProviderConfigError, match=r'unable to access path ".*": no such file or directory'):
            self.read(tmp_path, tmp_path / "config")
        with pytest.raises(ProviderConfigError, match="credential provider config path is empty"):
            self.read(tmp_path, "")
        with pytest.raises(ProviderConfigError, match=r"plugin binary directory .*/none did not exist"):
            read_credential_plugins("x", str(tmp_path / "none"), allows_tokens=True)

    def test_a_program_must_be_executable(self, tmp_path: Path) -> None:
        (tmp_path / "config").write_text(json.dumps(config({**PROVIDER, "name": "data"})))
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin/data").touch(mode=0o644)
        with pytest.raises(ProviderConfigError, match=r"error inspecting binary executable .*: permission denied"):
            self.read(tmp_path, tmp_path / "config")
