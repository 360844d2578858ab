"""Passwords never appear in messages and logs: the one place that decides what may be shown of a connection string.

A URL is shown only if all of it is understood (an allow-list): a password with an unescaped `@`, `/` or `%` can end up
in any part of it, and drivers quote such parts in their errors. Other texts, which may merely contain a connection
string, are searched for what looks like a password.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

HIDDEN: Final = "…"

_ESCAPE: Final = r"%[0-9A-Fa-f]{2}"
_HOST: Final = r"(?:\[[0-9A-Fa-f:.]+\]|(?:[\w.-]|%2[Ff])*)(?::\d{1,5})?"
_SERVER_URL: Final = re.compile(
    r"(?P<scheme>postgres(?:ql)?)://"
    rf"(?:(?P<user>(?:[\w.+-]|%40|%20)*)(?P<password>:(?:[^@/?#\[\]%\s]|{_ESCAPE})*)?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)"
    r"(?P<name>/[\w.-]*)?"
    rf"(?:\?(?P<query>(?:[^@#%\s]|{_ESCAPE})*))?"
)
_SHOWN_VALUE: Final = re.compile(r"[\w./,-]*")
# The parameters of a URL of PostgreSQL: those whose values are shown, and all others.
_SHOWN_NAMES: Final = (
    "application_name connect_timeout dbname gssencmode host hostaddr keepalives keepalives_count keepalives_idle "
    "keepalives_interval load_balance_hosts port sslmode target_session_attrs tcp_user_timeout user"
)
_OTHER_NAMES: Final = (
    "channel_binding client_encoding fallback_application_name gssdelegation gsslib krbsrvname max_protocol_version "
    "min_protocol_version oauth_client_id oauth_client_secret oauth_issuer oauth_scope options passfile password "
    "replication require_auth requirepeer requiressl scram_client_key scram_server_key service "
    "ssl_max_protocol_version ssl_min_protocol_version sslcert sslcertmode sslcompression sslcrl sslcrldir sslkey "
    "sslkeylogfile sslnegotiation sslpassword sslrootcert sslsni"
)
_SHOWN: Final = frozenset(_SHOWN_NAMES.split())
_KNOWN: Final = _SHOWN | frozenset(_OTHER_NAMES.split())
_SECRET_NAME: Final = re.compile("pass|secret|key")
_NESTED: Final = re.compile("passw|secret", re.IGNORECASE)  # an assignment inside of `options`
_SQLITE_WITH_PASSWORD: Final = re.compile(
    r"sqlite[^:/]*:(?!///)/*[^/]*:.*@|.*[?&]\w*(?:key|pass|pwd|secret|token)", re.I | re.S
)

# A password shorter than this may be part of any word, and no driver repeats the password of a well-formed URL.
_SHORTEST_SECRET: Final = 4

# scheme://user:password@host, up to the last @ before a blank or a quote. Both patterns are tried once for each run of
# other characters, so that a long text without a blank costs no more than any other.
_UP_TO_LAST_AT: Final = re.compile(r"""(?<![^\s'"])[^\s'"]*@""")
_BEFORE_PASSWORD: Final = re.compile(r"\w:/{1,3}[^:@/]*:")
# password='…' in a connection string, ?password=… in a URL, "password": "…" in JSON and in the repr of a dict
_ASSIGNMENT: Final = re.compile(
    r"""((?:password|passwd|passphrase|pwd|secret|api_?key|token)['"]?\s*[=:]\s*)"""
    r"""(?:'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?|[^\s&,;)}\]'"]+)""",
    re.IGNORECASE,
)

# Authorization: Bearer … in a header that was logged
_CREDENTIALS: Final = re.compile(
    r"""(authorization['"]?\s*[=:]\s*['"]?(?:\w+\s+)?|\bbearer\s+)[\w.~+/=-]{8,}""", re.IGNORECASE
)


def shown_url(url: str) -> str:
    """A database URL that may be shown: without passwords, or only its kind if it is malformed.

    >>> shown_url("postgresql://ann:s3cret@db/jobs?password=x&port=1")
    'postgresql://ann:…@db/jobs?password=…&port=1'
    >>> shown_url("postgresql://ann:s3@cret@db/jobs"), shown_url("host=db password=s3cret")
    ('postgresql://…', '…')
    """
    if url.startswith("sqlite:"):
        return f"sqlite:{HIDDEN}" if has_password_for_sqlite(url) else url
    found = _parsed(url)
    if found is None:
        scheme = re.match(r"postgres(?:ql)?://|[a-z][a-z0-9+]{1,20}://", url)
        return f"{scheme[0] if scheme else ''}{HIDDEN}"
    user = f"{found['user']}{f':{HIDDEN}' if found['password'] else ''}@" if found["user"] is not None else ""
    query = "" if found["query"] is None else f"?{'&'.join(map(_shown_parameter, found['query'].split('&')))}"
    return f"{found['scheme']}://{user}{found['hosts']}{found['name'] or ''}{query}"


def is_well_formed(url: str) -> bool:
    """Whether a URL of PostgreSQL can be understood without a guess, so that a driver's errors quote no secret."""
    return _parsed(url) is not None


def has_password_for_sqlite(url: str) -> bool:
    """Whether a URL of SQLite has a password, which SQLite does not take: it would become part of the file's name.

    >>> has_password_for_sqlite("sqlite://:s3cret@/file.db"), has_password_for_sqlite("sqlite:////tmp/a:b@c.db")
    (True, False)
    """
    return _SQLITE_WITH_PASSWORD.match(url) is not None


def redacted(text: str) -> str:
    """Any text, without what looks like a password in a connection string or an assignment.

    >>> redacted("cannot use postgresql://ann:s3cret@db/jobs (host=db password='s3 cret')")
    'cannot use postgresql://ann:…@db/jobs (host=db password=…)'
    >>> redacted("403 for {'Authorization': 'Basic YW5uOnMzY3JldA=='}, basic information follows")
    "403 for {'Authorization': 'Basic …'}, basic information follows"
    """
    text = _CREDENTIALS.sub(rf"\1{HIDDEN}", text)
    return _ASSIGNMENT.sub(rf"\1{HIDDEN}", _UP_TO_LAST_AT.sub(_without_password, text))


def _without_password(found: re.Match[str]) -> str:
    before = _BEFORE_PASSWORD.search(found[0])
    return found[0] if before is None else f"{found[0][: before.end()]}{HIDDEN}@"


def redacted_for(url: str, text: str) -> str | None:
    """What a driver says about a connection to this URL; None if it may quote a part of a malformed URL.

    >>> redacted_for("postgresql://ann:s3cret@db", 'no such option "s3cret"')
    'no such option "…"'
    """
    found = _parsed(url)
    if found is None:
        return None
    for secret in sorted(_secrets(found), key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET and secret not in shown_url(url):
            text = text.replace(secret, HIDDEN)
    return redacted(text)


def _parsed(url: str) -> re.Match[str] | None:
    found = _SERVER_URL.fullmatch(url)
    if found is None:
        return None
    pairs = [pair.partition("=")[::2] for pair in (found["query"] or "").split("&") if pair]
    nested = any(_NESTED.search(value) for name, value in pairs if not _SECRET_NAME.search(name))
    return found if _KNOWN.issuperset(name for name, _ in pairs) and not nested else None


def _shown_parameter(pair: str) -> str:
    name, equals, value = pair.partition("=")
    return pair if name in _SHOWN and _SHOWN_VALUE.fullmatch(value) else f"{name}{equals}{HIDDEN}"


def _secrets(found: re.Match[str]) -> set[str]:
    """The passwords, as they are written and as the driver decodes them."""
    pairs = [pair.partition("=")[::2] for pair in (found["query"] or "").split("&")]
    written = [(found["password"] or "")[1:], *(value for name, value in pairs if _SECRET_NAME.search(name))]
    return {text for value in written for text in (value, unquote(value))}
