"""No text shows a password, whatever the connection string looks like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.model.error_text import describe, stack_of
from stepwell.model.redaction import has_password_for_sqlite, redacted, redacted_for, shown_url

CANARY = "cAnArY"  # what no text may contain
SPECIAL = st.text(alphabet="@:/?#%&=[]+;,!$*~ .-_aZ1é\n", max_size=4)
SHAPES = (
    "postgresql://ann:{}@db:5432/jobs",
    "postgres://ann:{}@db,standby:5433/jobs?sslmode=require",
    "postgresql://:{}@db/jobs",
    "postgresql://ann%3A{}@db/jobs",
    "postgresql://ann:{}",
    "postgresql://ann:{}/jobs",
    "postgresql://ann:{}?sslmode=require",
    "postgresql:ann:{}@db/jobs",
    "postgresql:/ann:{}@db/jobs",
    "postgresql:///jobs?user=ann&password={}",
    "postgresql://ann@db/jobs?sslpassword={}&sslmode=require",
    "postgresql://ann@db/jobs?{}",
    "postgresql://ann@db/jobs?pasword={}",
    "postgresql://ann@db/jobs?options=-cpassword={}",
    "postgresql://ann@db/jobs#{}",
    "postgresql+psycopg://ann:{}@db/jobs",
    "mysql://ann:{}@db/jobs",
    "host=db password={} dbname=jobs",
    "host=db password='{}' dbname=jobs",
    "ann:{}@db/jobs",
    "password={}",
    "{}",
    "sqlite://:{}@/file.db",
    "sqlite://ann:{}@host/file.db",
    "sqlite:///file.db?password={}",
    "sqlite:///file.db?mode=ro&key={}",
)


@st.composite
def canaries(draw: st.DrawFn) -> tuple[str, str]:
    """A connection string with a password, and the password."""
    shape, before, after = draw(st.sampled_from(SHAPES)), draw(SPECIAL), draw(SPECIAL)
    if shape.startswith("postgresql://ann:{}") and "{}@" not in shape:
        before = ""  # `ann:1,x` and `ann:@x` are well-formed: x is a host
    password = f"{before}{CANARY}{after}"
    return shape.format(password), password


@given(canaries())
def test_a_password_is_not_shown_in_any_shape_of_connection_string(case: tuple[str, str]) -> None:
    url, _ = case
    assert CANARY not in shown_url(url), url


@given(canaries())
def test_the_errors_of_a_driver_are_shown_without_any_part_of_the_password(case: tuple[str, str]) -> None:
    url, password = case
    for quoted in (f'cannot use "{password}"', f"no host {password.rpartition('@')[2]!r}", url):
        assert CANARY not in (redacted_for(url, quoted) or ""), url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ann:x@db:5432/jobs", "postgresql://ann:…@db:5432/jobs"),
        ("postgresql://ann@[::1]:5432/jobs", "postgresql://ann@[::1]:5432/jobs"),
        ("postgresql://db/jobs?application_name=shop&sslmode=require",) * 2,
        ("postgresql://ann:p%40ss@%2Fvar%2Frun/jobs", "postgresql://ann:…@%2Fvar%2Frun/jobs"),
        ("postgresql://db/jobs?options=-csearch_path%3Dx", "postgresql://db/jobs?options=…"),
        ("sqlite:////tmp/a:b@c.db", "sqlite:////tmp/a:b@c.db"),
        ("sqlite:///jobs.db", "sqlite:///jobs.db"),
        ("sqlite://", "sqlite://"),
    ],
)
def test_what_is_no_secret_is_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown


@pytest.mark.parametrize(
    "text",
    [
        "cannot connect to postgresql://ann:cAnArY@db/jobs",
        "cannot connect to amqp://ann:cA@nArY/cAnArY@db/jobs, sorry",
        "conninfo: host=db user=ann password=cAnArY port=1",
        "conninfo: password = 'it\\'s cAnArY' host=db",
        "{'password': 'cAnArY', 'user': 'ann'}",
        '{"api_key": "cAnArY"}',
        "GET https://api/x?token=cAnArY&page=2",
        "connect(user='ann', password='cAnArY')",
    ],
)
def test_passwords_in_other_texts_are_hidden(text: str) -> None:
    assert CANARY not in redacted(text)
    error = RuntimeError(text)
    assert CANARY not in describe(error) + stack_of(error)


@pytest.mark.parametrize(
    "text",
    [
        "see https://example.com/a?b=c and write to me@example.com",
        "connection to server at 127.0.0.1, port 5432 failed: Connection refused",
        'password authentication failed for user "ann"',
        "KeyError: 'password'",
    ],
)
def test_texts_without_a_password_stay_as_they_are(text: str) -> None:
    assert redacted(text) == text


def test_the_password_of_a_well_formed_url_is_hidden_where_a_driver_repeats_it() -> None:
    url = "postgresql://ann:p%40ss-cAnArY@db/jobs"
    assert redacted_for(url, 'bad "p@ss-cAnArY" or "p%40ss-cAnArY"') == 'bad "…" or "…"'


def test_sqlite_takes_no_password() -> None:
    assert has_password_for_sqlite("sqlite:///file.db?password=x")
    assert not has_password_for_sqlite("sqlite:///file.db")


@pytest.mark.timeout(60)  # a pattern that is tried at every character needs an hour
@pytest.mark.parametrize("part", ["x", "a:/x:", "@", "password=", "token'", "://"])
def test_a_long_text_without_a_blank_is_searched_once(part: str) -> None:
    assert redacted(part * 500_000)
