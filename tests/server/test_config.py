"""Node configuration: read once, refused with the nearest name."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from trimask_core.basics.errors import ConfigError
from trimask_golden import Golden
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


WRONG = [
    (GOOD + "poll_second = 1\n", "poll_second"),
    (GOOD + "colour = 1\n", "colour"),
    (GOOD + 'poll_seconds = "1"\n', "poll_seconds"),
    (GOOD + "mask_threads = true\n", "mask_threads"),
    (GOOD + "log_format = 'xml'\n", "log_format"),
    (GOOD.replace('name = "R1"\n', ""), "name"),
    (GOOD.replace('listen = "127.0.0.1:1"\n', "", 1), "listen"),
    (GOOD + "store = 1\n", "store"),
    (GOOD + "[store]\nurls = 'x'\n", "store.urls"),
    (GOOD + "[store]\nurl = 1\n", "store.url"),
    (GOOD + "[store]\nurl = 'mysql://x'\n", "store.url"),
    (GOOD + "[store]\nurl = 'postgresql://x'\nurl_file = 'y'\n", "store.url"),
    (GOOD + "[store]\nurl_file = 'none'\n", "none"),
    (GOOD + "[store]\nschema = 'Bad; name'\n", "schema"),
    # With reload_seconds = -1 a node looked at its files for ever, answered nobody and did not stop.
    (GOOD + "reload_seconds = -1\n", "reload_seconds"),
    (GOOD + "reload_seconds = nan\n", "reload_seconds"),
    (GOOD + "poll_seconds = 0\n", "poll_seconds"),
    (GOOD + "mask_threads = 0\n", "mask_threads"),
    (GOOD + "keep_closed_days = -1\n", "keep_closed_days"),
    (GOOD + "keep_closed_days = inf\n", "keep_closed_days"),
    (GOOD + "rate_limit_burst = 0\n", "rate_limit_burst"),
    (GOOD + "max_submission_bytes = -4\n", "max_submission_bytes"),
    (GOOD + "http_listen = '127.0.0.1:1'\n", "http_listen"),
    (GOOD + "http_listen = '[::]:2'\n", "http_listen"),
    (GOOD + "proxies = ['front.example']\n", "proxies"),
    (GOOD + "log_fromat = 'json'\n", "log_fromat"),
]


def test_settings_no_node_can_run_with_are_refused_by_file_and_name(tmp_path: Path, golden: Golden) -> None:
    path = tmp_path / "node.toml"

    def read(text: str) -> None:
        path.write_text(text)
        try:
            load_config(path, "right")
        except ConfigError as error:
            raise ConfigError(str(error).replace(str(tmp_path), "FOLDER")) from None

    cases = {text.replace(GOOD, ""): (name, partial(read, text)) for text, name in WRONG}
    golden("node-file", ConfigError, cases)
    with pytest.raises(ConfigError, match=r"node\.toml is not TOML: "):
        load_config(_write(tmp_path, "name = "), "right")


def test_repro_a_node_has_a_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'name' must not be empty"):
        load_config(_write(tmp_path, GOOD.replace("R1", " ")), "right")


def test_ports_of_different_addresses_may_be_the_same(tmp_path: Path) -> None:
    text = (
        GOOD.replace("127.0.0.1:2", "127.0.0.2:1")
        + "http_listen = '127.0.0.1:0'\nhttps_listen = '127.0.0.1:0'\n"
    )
    assert load_config(_write(tmp_path, text), "right").http_listen == "127.0.0.1:0"


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


def test_repro_commands_for_any_role_take_a_node_with_https(tmp_path: Path) -> None:
    """`trimask node status` and eight others refused every node with `https_listen`."""
    text = GOOD + 'https_listen = "127.0.0.1:9"\n'
    assert load_config(_write(tmp_path, text)).https_listen == "127.0.0.1:9"
    assert load_config(_write(tmp_path, GOOD.replace('listen = "127.0.0.1:1"\n', "", 1))).listen == ""
    with pytest.raises(ConfigError, match="a left provider serves no browsers"):
        load_config(_write(tmp_path, text), "left")
