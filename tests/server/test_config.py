"""Node configuration: read once, refused with the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimask_core.errors import ConfigError
from trimask_server.settings.config import load_config

GOOD = 'name = "R1"\ndata = "data"\nkeys = "."\nlisten = "127.0.0.1:1"\npeer_listen = "127.0.0.1:2"\n'


def _write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "node.toml"
    path.write_text(text)
    return path


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    config = load_config(_write(tmp_path, GOOD), "right")
    assert config.data == tmp_path / "data"
    assert config.attempt_timeout_seconds == 120.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD + "poll_second = 1\n", "did you mean 'poll_seconds'"),
        (GOOD + "colour = 1\n", "unknown setting 'colour'"),
        (GOOD + 'poll_seconds = "1"\n', "'poll_seconds' must be a number"),
        (GOOD + "mask_threads = true\n", "'mask_threads' must be a whole number"),
        (GOOD + "log_format = 'xml'\n", "'text' or 'json'"),
        (GOOD.replace('name = "R1"\n', ""), "'name' is missing"),
        (GOOD.replace('listen = "127.0.0.1:1"\n', "", 1), "'listen' is missing"),
        ("name = ", "is not TOML"),
        (GOOD + "store = 1\n", "'store' must be a table"),
        (GOOD + "[store]\nurls = 'x'\n", "unknown setting 'store.urls'; did you mean 'store.url'"),
        (GOOD + "[store]\nurl = 1\n", "'store.url' must be text"),
        (GOOD + "[store]\nurl = 'mysql://x'\n", "must begin with postgresql://"),
        (GOOD + "[store]\nurl = 'postgresql://x'\nurl_file = 'y'\n", "not both"),
        (GOOD + "[store]\nurl_file = 'none'\n", "cannot read .*none"),
        (GOOD + "[store]\nschema = 'Bad; name'\n", "lower-case letters"),
    ],
)
def test_bad_setting(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load_config(_write(tmp_path, text), "right")


def test_left_provider_needs_no_public_address(tmp_path: Path) -> None:
    assert load_config(_write(tmp_path, GOOD.replace('listen = "127.0.0.1:1"\n', "", 1)), "left").listen == ""


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(tmp_path / "none.toml", "right")


def test_where_the_stores_address_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://trimask:hunter2@db.example.org/trimask"
    assert load_config(_write(tmp_path, GOOD), "right").store.url == ""
    (tmp_path / "url").write_text(url + "\n")
    config = load_config(_write(tmp_path, GOOD + "[store]\nurl_file = 'url'\nschema = 'r1'\n"), "right")
    assert (config.store.url, config.store.schema) == (url, "r1")
    assert "hunter2" not in repr(config)
    monkeypatch.setenv("TRIMASK_STORE_URL", "postgresql://from-the-environment/x")
    config = load_config(_write(tmp_path, GOOD + f"[store]\nurl = '{url}'\n"), "right")
    assert config.store.url == "postgresql://from-the-environment/x"
