"""`stepwell.toml` and the environment: what is read, what wins, and what is refused with which words."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import FrozenInstanceError
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from stepwell.model.errors import ConfigError, StepwellError
from stepwell.service.config import Config, Setting, all_settings, load_config, load_setting
from stepwell.service.config.kinds import BadValue, Kind, as_toml
from stepwell.service.config.names import Names, PerName
from stepwell.service.config.numbers import Days, Seconds, Size, WholeNumber
from stepwell.service.config.reference import settings_table
from stepwell.service.config.words import Choice, FilePath, Flag, Text

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"

Load = Callable[..., Config]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Reads a text as `stepwell.toml` of the working directory, with only the variables that are given."""
    monkeypatch.chdir(tmp_path)

    def load(text: str | bytes | None = None, path: Path | None = None, **environ: str) -> Config:
        if text is not None:
            Path("stepwell.toml").write_bytes(text.encode() if isinstance(text, str) else text)
        return load_config(path, environ)

    return load


@pytest.fixture
def problems(load: Load) -> Callable[..., list[str]]:
    def problems(*arguments: Any, **environ: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            load(*arguments, **environ)
        return str(caught.value).split("\n")

    return problems


# what is read ---------------------------------------------------------------------------------------------


def test_without_file_and_variables_everything_is_a_default(load: Load) -> None:
    config = load()
    assert config == Config()
    assert {str(config.origin(setting.name)) for setting in all_settings()} == {"default"}


def test_a_file_sets_what_it_names_and_its_lines_are_known(load: Load) -> None:
    config = load('[worker]\nslots = 3\n\nlease_seconds = "1m"\n[dispatcher.batch_limits]\nalpha = 7')
    assert (config.worker.slots, config.worker.lease_seconds, config.worker.grace_seconds) == (3, 60.0, 30.0)
    assert [config.dispatcher.batch_limit_of(group) for group in ("alpha", "beta")] == [7, 512]
    origins = {name: str(origin) for name, origin in config.origins.items()}
    assert origins == {
        "worker.slots": "stepwell.toml:2",
        "worker.lease_seconds": "stepwell.toml:4",
        "dispatcher.batch_limits": "stepwell.toml:5",
    }


@pytest.mark.parametrize("setting", all_settings(), ids=lambda setting: setting.name)
def test_every_setting_can_be_set_in_the_file_and_by_its_variable(setting: Setting, load: Load) -> None:
    value, text = _sample(setting.kind)
    config = load(f"[{setting.section}]\n{setting.key} = {as_toml(value)}")
    assert config.value(setting.name) == value != setting.default
    assert str(config.origin(setting.name)) == "stepwell.toml:2"
    config = load("", **{setting.variable: text})
    assert config.value(setting.name) == value
    assert config.origin(setting.name).kind == "environment"


def _sample(kind: Kind[Any]) -> tuple[Any, str]:
    """A value that is no default, and how a variable would hold it."""
    match kind:
        case WholeNumber():
            return 44, "44"
        case Seconds():
            return 44.5, "44.5s"
        case Size():
            return 44 << 20, "44M"
        case Days():
            return 44.5, "44.5"
        case Flag():
            return True, "yes"
        case Names():
            return ("x", "y"), "x, y"
        case PerName():
            return {"x": 44}, "x=44"
        case Choice():
            return kind.options[1], kind.options[1].upper()
        case FilePath():
            return Path("logs/x.log"), "logs/x.log"
        case Flag():
            return True, "on"
        case Text(pattern=r"[\w.:-]+"):
            return "192.0.2.1", "192.0.2.1"
        case Text(pattern=r"[!-~]{16,}"):
            return "x" * 16, "x" * 16
    return ("sqlite:///x.db",) * 2 if kind.read("sqlite:///x.db") else ("a:b", "a:b")


def test_the_environment_wins_over_the_file_and_an_empty_variable_is_none(load: Load) -> None:
    text = '[worker]\nslots = 3\nqueues = ["a", "b"]\nexecutor = "thread"'
    config = load(text, STEPWELL_WORKER_QUEUES="c", STEPWELL_WORKER_SLOTS="")
    assert (config.worker.slots, config.worker.queues, config.worker.executor) == (3, ("c",), "thread")
    assert str(config.origin("worker.queues")) == "STEPWELL_WORKER_QUEUES"


def test_the_file_is_the_one_that_is_named_most_directly(load: Load, tmp_path: Path) -> None:
    for number, name in enumerate(("stepwell.toml", "named.toml", "given.toml"), 1):
        (tmp_path / name).write_text(f"[worker]\nslots = {number}")
    assert load().worker.slots == 1
    assert load(STEPWELL_CONFIG="named.toml").worker.slots == 2
    config = load(None, Path("given.toml"), STEPWELL_CONFIG="named.toml")
    assert (config.worker.slots, str(config.origin("worker.slots"))) == (3, "given.toml:2")


def test_one_setting_is_read_whatever_is_wrong_with_others(load: Load, tmp_path: Path) -> None:
    path = tmp_path / "stepwell.toml"
    path.write_text('[worker]\nslots = "four"\n[app]\nenvironment = "staging"\n[unknown]\n')
    others = {"STEPWELL_WORKER_SLOT": "4", "STEPWELL_LOG_LEVEL": "loud"}
    assert load_setting("app.environment", others) == "staging"
    assert load_setting("app.environment", {**others, "STEPWELL_ENV": "production"}) == "production"
    path.write_text("[app]\nenvironment = 3\n")
    with pytest.raises(ConfigError, match=r"^stepwell.toml:2: \[app\] environment = 3: expected the name of an env"):
        load_setting("app.environment", {})
    path.write_text("[app")
    with pytest.raises(ConfigError, match=r"^stepwell.toml:1: not valid TOML"):
        load_setting("app.environment", {})
    assert load_setting("app.environment", {"STEPWELL_ENV": "production"}) == "production"
    path.unlink()
    assert load_setting("app.environment", {}) is None


def test_pyproject_is_not_read(load: Load, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.stepwell.worker]\nslots = 3")
    assert load() == Config()


@pytest.mark.parametrize(
    "text", [b"\xef\xbb\xbf[worker]\nslots = 3", b"[worker]\r\nslots = 3\r\n", b"worker.slots = 3"]
)
def test_byte_order_marks_and_all_line_ends_are_read(load: Load, text: bytes) -> None:
    assert load(text).worker.slots == 3


def test_a_config_cannot_be_changed_and_keeps_its_url_to_itself(load: Load) -> None:
    config = load(STEPWELL_DB="postgresql://ann:s3cret@db/jobs")
    with pytest.raises(FrozenInstanceError):
        config.worker.slots = 3  # type: ignore[misc]
    assert "s3cret" not in repr(config)
    url = next(setting for setting in all_settings() if setting.secret)
    assert (url.show(config.database.url), url.show(url.default)) == ("(hidden)", '"sqlite:///stepwell.db"')


def test_variables_of_others_are_left_alone(load: Load) -> None:
    others = ("STEPWELL_TEST_PG_URL", "STEPWELL_VERSION", "STEPWELL_DB_2", "STEPWELL_PORT", "STEPWELL_WORKER_PORT")
    links = ("STEPWELL_WORKER_SERVICE_HOST", "STEPWELL_WORKER_PORT_80_TCP_ADDR", "STEPWELL_WORKER_SERVICE_PORT_HTTP")
    assert load(**dict.fromkeys((*others, *links), "tcp://10.0.0.1:80")) == Config()


# what click makes of it -----------------------------------------------------------------------------------


class _SettingType(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    name = "value"

    def __init__(self, name: str) -> None:
        self._kind = next(setting.kind for setting in all_settings() if setting.name == name)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._kind.read_text(value) if isinstance(value, str) else value
        except BadValue as error:
            self.fail(str(error), param, ctx)


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        ([], "6 90.0 ('a', 'b') ('g',) None"),
        (["--slots", "2", "--lease", "2m", "--queues", "c"], "2 120.0 ('c',) ('g',) None"),
        (["--group", "x", "--group", "y", "--app", "m:v"], "6 90.0 ('a', 'b') ('x', 'y') m:v"),
    ],
)
def test_the_command_line_wins_over_the_environment_and_the_file(
    load: Load, arguments: list[str], printed: str
) -> None:
    text = '[worker]\nslots = 5\nlease_seconds = "90s"\nqueues = ["a", "b"]\n[dispatcher]\ngroups = ["g"]'
    config = load(text, STEPWELL_WORKER_SLOTS="6")

    @click.command()
    @click.option("--app", "app_name")
    @click.option("--slots", type=click.IntRange(min=1))
    @click.option("--lease", type=_SettingType("worker.lease_seconds"))
    @click.option("--queues", type=_SettingType("worker.queues"))
    @click.option("--group", "groups", multiple=True)
    def worker(slots: int, lease: float, queues: tuple[str, ...], groups: tuple[str, ...], app_name: str) -> None:
        click.echo(f"{slots} {lease} {queues} {groups} {app_name}")

    defaults = config.default_map(
        slots="worker.slots",
        lease="worker.lease_seconds",
        queues="worker.queues",
        groups="dispatcher.groups",
        app_name="app.name",
    )
    result = CliRunner().invoke(worker, arguments, default_map=defaults)
    assert result.output.strip() == printed


@pytest.mark.parametrize("name", ["worker.slot", "slots", "worker.batch_limit_of", "origins", "worker.slots.real"])
def test_a_name_that_is_no_setting_is_a_mistake_of_the_program(name: str) -> None:
    for ask in (Config().value, Config().origin, lambda name: Config().default_map(x=name)):
        with pytest.raises(KeyError):
            ask(name)


# what is refused ------------------------------------------------------------------------------------------


def test_everything_that_is_wrong_is_reported_at_once_in_the_order_of_the_file(
    problems: Callable[..., list[str]],
) -> None:
    text = """\
slots = 3
[dispatcher.batch_limits]
alpha = "many"
beta = 3
"two words" = true
[worker]
slots = "four"
slot = 4
rescues = 1
queues = [
  "a", # ]
  7, "a",
  "b,c" ]
[wroker]
[[reaper]]
[log]
color = true
"""
    assert problems(text, STEPWELL_WORKER_SLOTS="0", STEPWELL_WORKER_LEASE="1", STEPWELL_DB="mysql://s3cret") == [
        "stepwell.toml:1: slots: outside of a section; did you mean [worker] slots?",
        'stepwell.toml:3: [dispatcher.batch_limits] alpha = "many": expected a whole number of at least 1',
        'stepwell.toml:5: [dispatcher.batch_limits] "two words" = true: expected a whole number of at least 1',
        'stepwell.toml:7: [worker] slots = "four": expected a whole number of at least 1',
        "stepwell.toml:8: [worker] slot: unknown setting; did you mean slots?",
        "stepwell.toml:9: [worker] rescues: unknown setting; did you mean [reaper] rescues?",
        "stepwell.toml:12: [worker] queues, item 2 = 7: expected a name",
        'stepwell.toml:12: [worker] queues, item 3 = "a": expected distinct names',
        'stepwell.toml:13: [worker] queues, item 4 = "b,c": expected a name without a comma',
        "stepwell.toml:14: [wroker]: unknown section; did you mean [worker]?",
        "stepwell.toml:15: [[reaper]]: expected a section, written as [reaper]",
        "stepwell.toml:17: [log] color: unknown setting; valid settings: file, format, level",
        "STEPWELL_DB: expected a URL like sqlite:///file.db or postgresql://host/name",
        'STEPWELL_WORKER_SLOTS = "0": expected a whole number of at least 1',
        "STEPWELL_WORKER_LEASE: unknown setting; did you mean STEPWELL_WORKER_LEASE_SECONDS?",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[worker]\nslots = \n", "stepwell.toml:2: not valid TOML: Invalid value (column 9)"),
        ("[worker]\nslots = [\n", "stepwell.toml:2: not valid TOML: Invalid value (at the end of the file)"),
        ("[worker]\nslots = 1\n\nslots = [\n2]", "stepwell.toml:4: [worker] slots: defined twice, first on line 2"),
        ("[worker]\n[log]\n[worker]", "stepwell.toml:3: worker: defined twice, first on line 1"),
        ("a.b = 1\n[a]", "stepwell.toml:2: not valid TOML: Cannot declare ('a',) twice (column 3)"),
        (b"[worker]\n# caf\xe9", "stepwell.toml:2: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        ("[worker]".encode("utf-16"), "stepwell.toml: encoded in UTF-16; save it as UTF-8"),
        (f"a = {'[' * 9999}{']' * 9999}", "stepwell.toml: not valid TOML: nested too deeply"),
        (f"a = {'1' * 9999}", "stepwell.toml: not valid TOML: Exceeds the limit "),
        ("[worker]\nslots = 0x" + "f" * 9999, "stepwell.toml:2: [worker] slots = 0xffff"),
        ('[worker]\nqueues = "a,b"', 'stepwell.toml:2: [worker] queues = "a,b": expected a list of names, like '),
        ("[web]\nport = 65536", "stepwell.toml:2: [web] port = 65536: expected a whole number of at most 65535"),
        ("[worker.slots]\nx = 1", "stepwell.toml:1: [worker] slots = a table: expected a whole number of at least 1"),
        ("[dispatcher]\nbatch_limits = 5", "stepwell.toml:2: [dispatcher] batch_limits = 5: expected a table of "),
        ("[dispatcher.batch_limits]\n'' = 5", 'stepwell.toml:2: [dispatcher.batch_limits] "" = 5: expected a name '),
        ("database = 'postgresql://s3cret'", "stepwell.toml:1: database: expected a section, written as [database]"),
        ("[database]\nulr = 's3cret'", "stepwell.toml:2: [database] ulr: unknown setting; did you mean url?"),
        ("'a\\nb' = 1", "stepwell.toml:1: \"a\\\\nb\": outside of a section; valid sections: [database], [app], "),
        ('"\\u202e" = {}', 'stepwell.toml:1: ["\\u202e"]: unknown section; valid sections: '),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_refused_with_its_line(
    problems: Callable[..., list[str]], text: str | bytes, problem: str
) -> None:
    (found,) = problems(text)
    assert found.startswith(problem)
    assert "s3cret" not in found


def test_a_broken_file_does_not_hide_what_is_wrong_in_the_environment(problems: Callable[..., list[str]]) -> None:
    found = problems("[", STEPWELL_WORKER_SLOTS="none")
    assert [line.split(":")[0] for line in found] == ["stepwell.toml", 'STEPWELL_WORKER_SLOTS = "none"']


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.toml", "no such file"),
        ("folder", "is a directory; expected a file"),
        ("file/x", "cannot be read: Not a directory"),
        ("loop", "cannot be read: Too many levels of symbolic links"),
        ("nul\0", "not a valid file name: embedded null byte"),
    ],
)
def test_a_file_that_is_named_must_be_readable(
    problems: Callable[..., list[str]], tmp_path: Path, name: str, reason: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    name_shown = name.replace("\0", "\\x00")
    assert problems(None, Path(name)) == [f"{name_shown}: {reason}"]
    assert problems(STEPWELL_CONFIG=name) == [f"STEPWELL_CONFIG: {name_shown}: {reason}"]


def test_a_file_in_the_working_directory_must_be_readable(
    problems: Callable[..., list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / "stepwell.toml"
    usual.symlink_to("gone.toml")
    assert problems() == ["stepwell.toml: no such file"]
    usual.unlink()
    usual.mkdir()
    assert problems() == ["stepwell.toml: is a directory; expected a file"]

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)  # root may read everything
    assert problems() == ["stepwell.toml: cannot be read: Permission denied"]


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("STEPWELL_WORKERS_SLOTS", "STEPWELL_WORKER_SLOTS"),
        ("STEPWELL_WORKER_SLOT", "STEPWELL_WORKER_SLOTS"),
        ("STEPWELL_DATABASE_URL", "STEPWELL_DB"),
        ("STEPWELL_APP_NAME", "STEPWELL_APP"),
    ],
)
def test_a_misspelt_variable_is_refused(problems: Callable[..., list[str]], variable: str, meant: str) -> None:
    assert problems(**{variable: "4"}) == [f"{variable}: unknown setting; did you mean {meant}?"]


def test_a_variable_that_resembles_no_setting_is_answered_with_those_of_its_section(
    problems: Callable[..., list[str]],
) -> None:
    found = problems(STEPWELL_LOG_COLOR="1")
    (problem,) = found
    assert problem == (
        "STEPWELL_LOG_COLOR: unknown setting; "
        "valid variables: STEPWELL_LOG_FILE, STEPWELL_LOG_FORMAT, STEPWELL_LOG_LEVEL"
    )


def test_the_error_is_one_of_stepwell_and_survives_a_process() -> None:
    error = ConfigError("first", "second")
    again = pickle.loads(pickle.dumps(error))
    assert issubclass(ConfigError, StepwellError)
    assert (str(again), again.problems) == ("first\nsecond", ("first", "second"))


# kinds of values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (WholeNumber(1), 1, 1),
        (Seconds(), 0, 0.0),
        (Seconds(), 1.5, 1.5),
        (Seconds(), "90", 90.0),
        (Seconds(), "1h30m", 5_400.0),
        (Seconds(), "1d 2h 3m 4s 5ms", 93_784.005),
        (Seconds(), " 0.5 s ", 0.5),
        (Size(), 0, 0),
        (Size(), "2g", 2 << 30),
        (Size(), "1024 KiB", 1 << 20),
        (Size(), "512MB", 512 << 20),
        (Flag(), False, False),
        (Names(), [], ()),
        (Choice(("info", "error")), " Error ", "error"),
        (PerName(WholeNumber()), {}, {}),
    ],
)
def test_a_value_of_the_file_is_read(kind: Kind[Any], value: object, read: object) -> None:
    assert kind.read(value) == read
    assert type(kind.read(value)) is type(read)


NUMBERS_REFUSED = [True, "4", 4.0, None, [4], 0, -1, 2**31, float("nan")]
SECONDS_REFUSED = [True, "", "s", "1x", "-1", "5M", "1m1h", "1e3", "inf", "٣", [], -1, float("nan"), float("inf"), 1e9]
NAMES_REFUSED: list[object] = ["a", ["a", ""], [" a"], ["a\n"], ["a,b"], [1], ["a", "a"], {}]
TABLES_REFUSED: list[object] = [{"a": 1}, {"": True}, [], "a=1"]
SIZES_REFUSED = [True, "", "M", "1.5G", "-1M", "512", 512, -1, 2.0, "9" * 30, "99999999999T", {}]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((WholeNumber(1), value) for value in NUMBERS_REFUSED),
        *((Seconds(), value) for value in SECONDS_REFUSED),
        *((Size(), value) for value in SIZES_REFUSED),
        *((Flag(), value) for value in (1, 0, "true", None)),
        *((Names(), value) for value in NAMES_REFUSED),
        *((FilePath(), value) for value in ("", " ", 1, "a\0b")),
        *((Choice(("info",)), value) for value in ("", "inf", 1, True)),
        *((Text("a+", "letters"), value) for value in ("", "b", "a\n", 1)),
        *((PerName(Flag()), value) for value in TABLES_REFUSED),
    ],
)
def test_nonsense_is_refused_with_what_is_valid(kind: Kind[Any], value: object) -> None:
    with pytest.raises(BadValue, match=r"^expected "):
        kind.read(value)


@pytest.mark.parametrize(
    ("kind", "text", "read"),
    [
        (WholeNumber(), " 1_000 ", 1_000),
        (Flag(), "YES", True),
        (Flag(), "0", False),
        (Names(), "a, b,", ("a", "b")),
        (PerName(Seconds()), "a=1m,b = 2", {"a": 60.0, "b": 2.0}),
        (Text("a+", "letters"), " aa ", "aa"),
    ],
)
def test_a_value_of_a_variable_is_read(kind: Kind[Any], text: str, read: object) -> None:
    assert kind.read_text(text) == read


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        *((WholeNumber(1), text) for text in ("four", "0", "1.0", "1__0", "_1", "9" * 9_999, "٣", "1 0")),
        *((Flag(), text) for text in ("2", "maybe", " ")),
        *((Names(), text) for text in (",", "a,a", " ")),
        *((PerName(WholeNumber()), text) for text in (",", "a", "=1", "a=x", "a=1,a=2", "a=1=2")),
        *((Seconds(), text) for text in ("soon", "1 hour")),
        *((Size(), text) for text in ("big", "1M1K")),
    ],
)
def test_nonsense_in_a_variable_is_refused(kind: Kind[Any], text: str) -> None:
    with pytest.raises(BadValue, match=r"^expected "):
        kind.read_text(text)


@given(st.sampled_from(all_settings()), st.text() | st.integers() | st.floats() | st.booleans() | st.lists(st.text()))
def test_no_value_brings_down_a_kind(setting: Setting, value: Any) -> None:
    for read in (setting.kind.read, setting.kind.read_text):
        if read == setting.kind.read or isinstance(value, str):
            with suppress(BadValue):
                read(value)


# what belongs together ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting", [setting for setting in all_settings() if setting.constant], ids=lambda setting: setting.name
)
def test_a_default_is_the_constant_of_its_part(setting: Setting) -> None:
    module, _, constant = setting.constant.partition(":")
    assert setting.default == getattr(import_module(f"stepwell.{module}"), constant)


def test_every_setting_has_a_variable_of_its_own_and_a_valid_default() -> None:
    variables = [setting.variable for setting in all_settings()]
    assert len(set(variables)) == len(variables)
    assert all(re.fullmatch("STEPWELL(_[A-Z]+)+", variable) for variable in variables)
    for setting in all_settings():
        if setting.default is not None:
            given = list(setting.default) if isinstance(setting.default, tuple) else setting.default
            assert setting.kind.read(given) == setting.default
        assert setting.meaning.endswith(".")
        assert "|" not in setting.meaning


def test_the_page_of_the_configuration_has_the_settings_of_the_code() -> None:
    begin, end = (
        "<!-- settings: generated by stepwell.service.config.reference; a test compares -->",
        "<!-- end of settings -->",
    )
    page = PAGE.read_text(encoding="utf-8")
    assert page.partition(begin)[2].partition(end)[0].strip() == settings_table(), (
        "paste what this prints: python -c "
        "'from stepwell.service.config.reference import settings_table; print(settings_table())'"
    )


def test_the_example_of_the_page_is_a_valid_file(load: Load) -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    config = load(example)
    assert config.worker.grace_seconds == 90.0
    assert config.worker.max_memory == 512 << 20
    assert config.dispatcher.batch_limits == {"alpha": 2_000, "beta": 50}
    assert len(config.origins) == 12


def test_the_errors_of_the_page_are_those_that_are_reported(problems: Callable[..., list[str]]) -> None:
    (errors,) = re.findall(r"^```text\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    text = '# x\n[worker]\nslots = "four"\nlease = 20\n\n[dispacher]\n'
    assert problems(text, STEPWELL_WORKER_GRACE_SECONDS="soon") == errors.splitlines()


# config/dispatcher.yaml -----------------------------------------------------------------------------------

CRON_YAML = """\
dispatcher:
  poll_interval_seconds: 30      # seconds
  max_sleep_seconds: 120
  min_cron_interval_seconds: 300
"""


@pytest.fixture
def cron_yaml(tmp_path: Path) -> Callable[[str], None]:
    def write(text: str) -> None:
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / "config" / "dispatcher.yaml").write_text(text)

    return write


def test_the_settings_of_a_cron_dispatcher_are_read_with_their_lines(
    load: Load, cron_yaml: Callable[[str], None]
) -> None:
    cron_yaml(CRON_YAML)
    config = load()
    scheduler = config.scheduler
    assert (scheduler.poll_interval_seconds, scheduler.max_sleep_seconds) == (30.0, 120.0)
    assert scheduler.min_cron_interval_seconds == 300.0
    assert str(config.origin("scheduler.max_sleep_seconds")) == "config/dispatcher.yaml:3"


def test_stepwell_toml_and_variables_win_over_it(load: Load, cron_yaml: Callable[[str], None]) -> None:
    cron_yaml(CRON_YAML)
    config = load("[scheduler]\npoll_interval_seconds = 10", STEPWELL_SCHEDULER_MAX_SLEEP_SECONDS="20")
    assert (config.scheduler.poll_interval_seconds, config.scheduler.max_sleep_seconds) == (10.0, 20.0)
    assert config.scheduler.min_cron_interval_seconds == 300.0


def test_what_is_wrong_in_it_is_reported_with_its_line(
    problems: Callable[..., list[str]], cron_yaml: Callable[[str], None]
) -> None:
    cron_yaml("dispatcher:\n  poll_interval_seconds: soon\n  poll_interval: 60\n")
    first, second = problems()
    assert first.startswith('config/dispatcher.yaml:2: [scheduler] poll_interval_seconds = "soon": expected at least')
    assert second.startswith("config/dispatcher.yaml:3: poll_interval: unknown setting; valid settings: poll_interval_")
    cron_yaml("dispatcher: [")
    (broken,) = problems()
    assert broken.startswith("config/dispatcher.yaml: not valid YAML")


def test_a_file_of_that_name_about_something_else_is_ignored(load: Load, cron_yaml: Callable[[str], None]) -> None:
    for text in ("", "- a\n- b\n", "other: 1\n", "dispatcher: on\n"):
        cron_yaml(text)
        assert load() == Config()
