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


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("reload_seconds = -1", "'reload_seconds' is -1, and must be above 0"),
        ("reload_seconds = nan", "'reload_seconds' is nan"),
        ("poll_seconds = 0", "'poll_seconds' is 0, and must be above 0"),
        ("mask_threads = 0", "'mask_threads' is 0, and must be 1 or more"),
        ("keep_closed_days = -1", "'keep_closed_days' is -1, and must be 0 or more"),
        ("keep_closed_days = inf", "'keep_closed_days' is inf"),
        ("rate_limit_burst = 0", "'rate_limit_burst' is 0"),
        ("max_submission_bytes = -4", "'max_submission_bytes' is -4, and must be 1024 or more"),
        ("http_listen = '127.0.0.1:1'", "'listen' and 'http_listen' have the same port 1"),
        ("http_listen = '[::]:2'", "'peer_listen' and 'http_listen' have the same port 2"),
        ("log_fromat = 'json'", "did you mean 'log_format'"),
    ],
)
def test_repro_values_no_node_can_run_with_are_refused_by_file_and_name(
    tmp_path: Path, line: str, words: str
) -> None:
    """With reload_seconds = -1 the node looked at its files for ever, answered nobody and did not stop."""
    path = _write(tmp_path, GOOD + line + "\n")
    with pytest.raises(ConfigError, match=words) as raised:
        load_config(path, "right")
    assert str(raised.value).startswith(f"{path}: ")


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
