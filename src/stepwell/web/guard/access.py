"""Sign-in: tokens of programs, one-time codes, and the cookie that a browser gets for either.

A token is compared by its SHA-256, as bytes and in constant time. The cookie is signed with a key that follows from the
tokens: every process with the same tokens accepts it, and it is worth nothing when they are changed. The id in it is
that of a session, which signing out ends (`web/sessions.py`).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from stepwell.web.visitor import Role, Visitor

# A generated token has 43 characters. A person who chooses a shorter one than this chooses a word.
SHORTEST_TOKEN: Final = 16
CODE_SECONDS: Final = 600.0  # from the start of the server to the click on its link
SESSION_SECONDS: Final = 30 * 86_400


@dataclass(frozen=True, slots=True, repr=False)
class Token:
    """A secret that a program sends as `Authorization: Bearer …`, with the name that is recorded for what it does."""

    secret: str
    name: str = "token"
    role: Role = Role.ADMIN

    def __post_init__(self) -> None:
        if len(self.secret) < SHORTEST_TOKEN or not self.secret.isascii() or not self.secret.isprintable():
            raise ValueError(
                f"the token of {self.name!r} must have at least {SHORTEST_TOKEN} printable ASCII characters, so that "
                "it cannot be guessed: python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
            )

    def __repr__(self) -> str:
        return f"Token(name={self.name!r}, role={self.role})"

    @classmethod
    def generated(cls, name: str, role: Role = Role.ADMIN) -> Token:
        return cls(secrets.token_urlsafe(32), name, role)


class _Session(msgspec.Struct, array_like=True):
    id: str
    name: str
    role: Role
    expires: int


class Access:
    """Recognises visitors by their tokens and cookies."""

    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        found = list(tokens)
        self._by_hash = [(_hash(token.secret), token) for token in found]
        material = "\n".join(sorted(f"{token.name} {token.role} {token.secret}" for token in found))
        self._key = hashlib.sha256(b"stepwell sessions\n" + material.encode()).digest() if found else _random()
        # Cookies do not know ports: two servers on one machine must not overwrite each other's.
        self.cookie = f"stepwell-{hashlib.sha256(self._key).hexdigest()[:8]}"
        self._codes: dict[bytes, tuple[float, str, Role]] = {}
        self._lock = threading.Lock()

    @property
    def has_tokens(self) -> bool:
        return bool(self._by_hash)

    # tokens -----------------------------------------------------------------------------------------------

    def by_token(self, secret: str) -> Visitor | None:
        given, found = _hash(secret), None
        for known, token in self._by_hash:  # all of them: the time must not tell which one is near
            if hmac.compare_digest(given, known):
                found = token
        return None if found is None else Visitor(found.name, found.role, "token")

    # one-time codes -----------------------------------------------------------------------------------------

    def new_code(self, name: str, role: Role = Role.ADMIN) -> str:
        """A code that signs a browser in once, within ten minutes; known to this process alone."""
        code = secrets.token_urlsafe(24)
        with self._lock:
            now = time.monotonic()
            self._codes = {key: value for key, value in self._codes.items() if value[0] > now}
            self._codes[_hash(code)] = (now + CODE_SECONDS, name, role)
        return code

    def use_code(self, code: str) -> Visitor | None:
        """The visitor of a code; from then on it is unknown."""
        with self._lock:
            found = self._codes.pop(_hash(code), None)
        if found is None or found[0] < time.monotonic():
            return None
        return Visitor(found[1], found[2], "cookie")

    # cookies ------------------------------------------------------------------------------------------------

    def new_cookie(self, visitor: Visitor) -> str:
        expires = int(time.time()) + SESSION_SECONDS
        session = _Session(secrets.token_urlsafe(16), visitor.name, visitor.role, expires)
        body = _text(msgspec.json.encode(session))
        return f"{body}.{self._sign('cookie', body)}"

    def by_cookie(self, cookie: str) -> Visitor | None:
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(_hash(signature), _hash(self._sign("cookie", body))):
            return None
        try:
            session = msgspec.json.decode(urlsafe_b64decode(body + "=" * (-len(body) % 4)), type=_Session)
        except ValueError:  # of another version of Stepwell, with the same tokens
            return None
        if session.expires < time.time():
            return None
        return self.with_csrf(Visitor(session.name, session.role, "cookie", session=session.id), cookie)

    # cross-site tokens ----------------------------------------------------------------------------------------

    def with_csrf(self, visitor: Visitor, session: str = "") -> Visitor:
        """The visitor with the token that their forms send along."""
        csrf = self._sign("csrf", f"{visitor.name} {visitor.via} {session}")
        return replace(visitor, csrf=csrf)

    def is_csrf(self, visitor: Visitor, given: str) -> bool:
        return bool(visitor.csrf) and hmac.compare_digest(_hash(given), _hash(visitor.csrf))

    def _sign(self, purpose: str, text: str) -> str:
        return _text(hmac.digest(self._key, f"{purpose}\n{text}".encode("utf-8", "surrogatepass"), "sha256"))


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _random() -> bytes:
    return secrets.token_bytes(32)
