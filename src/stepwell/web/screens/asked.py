"""What a screen is given, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from stepwell.app import Stepwell
from stepwell.model.errors import StepwellError
from stepwell.model.ids import LARGEST_ID
from stepwell.web.site import Site
from stepwell.web.visitor import Role

# The ids of a table: the largest number of both databases has this many digits.


def id_of(text: str) -> int | None:
    """The id of a row; None for a text that cannot be one."""
    if len(text) > len(str(LARGEST_ID)) or not (text.isascii() and text.isdecimal()):
        return None
    return int(text) if 0 < int(text) <= LARGEST_ID else None


def moment_of(text: str) -> datetime:
    """A time as a form or an address writes it, in UTC unless it says otherwise."""
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise StepwellError(f"{text[:100]!r} is not a time; write it as 2026-01-31T14:07:12Z") from None


@dataclass(frozen=True, slots=True)
class Asked:
    """One question: the screen's address with its parameters, and who asks."""

    site: Site
    base: str  # the address of the dashboard, without a slash at its end
    path: str  # below `base`
    params: Mapping[str, Any]  # from the path
    query: tuple[tuple[str, str], ...]
    role: Role
    now: datetime
    can_sign_out: bool = False  # has a session of this server's own

    @property
    def app(self) -> Stepwell:
        return self.site.app

    def get(self, name: str, default: str = "") -> str:
        """The last value of a parameter of the query."""
        return next((value for key, value in reversed(self.query) if key == name), default)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.query if key == name and value]

    def number(self, name: str) -> int | None:
        """A parameter that is a positive number; anything else counts as missing."""
        return id_of(self.get(name))

    def id(self, missing: type[StepwellError]) -> int:
        """The id in the path; raises `missing` for what cannot be one."""
        found = id_of(self.params["id"])
        if found is None:
            raise missing(f"{self.params['id'][:100]!r} is not an id")
        return found

    def link(self, path: str, **query: Any) -> str:
        """An address of the dashboard; a parameter with a list is given several times."""
        given = _pairs(query)
        return f"{self.base}{quote(path)}{'?' + urlencode(given) if given else ''}"

    def here(self, **changes: Any) -> str:
        """This address with other parameters; None removes one."""
        kept = [(key, value) for key, value in self.query if key not in changes and key != "did"]
        query = [*kept, *_pairs(changes)]
        return f"{self.base}{quote(self.path)}{'?' + urlencode(query) if query else ''}"

    @property
    def address(self) -> str:
        """This address below the dashboard, for the field `next` of a form."""
        return f"{self.path}{'?' if self.query else ''}{urlencode(self.query)}"

    def may(self, role: Role) -> bool:
        return self.role >= role and not (self.site.read_only and role > Role.READ)


# How long a screen stays true while nothing is committed; and one of which nothing depends on the clock.
USUAL_SECONDS: Final = 5.0
ONLY_DATA: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A screen: its template and what that shows. `cli` is the command that shows the same."""

    template: str
    title: str
    cli: str
    screen: str  # which entry of the navigation is current
    data: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    live: bool = True
    # For how many seconds it stays true while nothing is committed: what it says about alarms, live workers, the last
    # hour and expected moments depends on the clock. (Ages do not: the browser writes them.) 0: asking again continues.
    holds: float = USUAL_SECONDS


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where an action leads; also for a screen that is only another one's address."""

    to: str


@dataclass(frozen=True, slots=True)
class Form:
    """What was sent with an action."""

    fields: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, body: bytes) -> Form:
        return cls(tuple(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20_000)))

    def get(self, name: str, default: str = "") -> str:
        return next((value for key, value in reversed(self.fields) if key == name), default).strip()

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.fields if key == name]

    def pairs(self, besides: Sequence[str] = ()) -> list[tuple[str, str]]:
        return [(key, value) for key, value in self.fields if key not in besides]


def _pairs(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """As in an address: a list gives several pairs, and what is missing none."""
    return [
        (key, str(each))
        for key, value in parameters.items()
        for each in (value if isinstance(value, list) else [value])
        if each not in (None, "")
    ]
