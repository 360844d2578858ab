"""An endpoint: a function with typed inputs and a typed result, and the table that it is entered in.

```python
@steps.get("/steps/{step}", "Show a step")
def show(call: Call, path: StepPath) -> Step: ...
```

The parameters `path`, `query` and `body` are msgspec structs. A GET only reads; everything else acts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_type_hints

from stepwell.app import Stepwell
from stepwell.model.secrets import Redaction
from stepwell.web.site import Site
from stepwell.web.visitor import Role, Visitor

F = TypeVar("F", bound=Callable[..., Any])
Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
INPUTS: Final = ("path", "query", "body")


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls, and what they call."""

    site: Site
    visitor: Visitor

    @property
    def app(self) -> Stepwell:
        return self.site.app

    @property
    def who(self) -> str:
        return self.visitor.name

    @property
    def redaction(self) -> Redaction:
        return self.site.app.redaction


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: Method
    path: str
    summary: str
    tag: str
    role: Role
    status: int
    handler: Callable[..., Any]
    changes_nothing: bool = False
    types: dict[str, Any] = field(default_factory=dict)

    @property
    def result(self) -> Any:
        return self.types["return"]

    @property
    def name(self) -> str:
        """The id of the operation in the OpenAPI document."""
        return f"{self.tag.replace(' ', '_')}_{self.handler.__name__.strip('_')}"

    @property
    def description(self) -> str:
        return (self.handler.__doc__ or "").strip()


class Table:
    """The endpoints of one subject."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self.endpoints: list[Endpoint] = []

    def get(self, path: str, summary: str) -> Callable[[F], F]:
        return self._add("GET", path, summary, Role.READ, 200)

    def post(
        self,
        path: str,
        summary: str,
        *,
        role: Role = Role.OPERATE,
        status: int = 200,
        changes_nothing: bool = False,
    ) -> Callable[[F], F]:
        """`changes_nothing`: doing it twice does no harm, and it takes more than one transaction."""
        return self._add("POST", path, summary, role, status, changes_nothing)

    def patch(self, path: str, summary: str, *, role: Role = Role.ADMIN) -> Callable[[F], F]:
        return self._add("PATCH", path, summary, role, 200)

    def delete(self, path: str, summary: str, *, role: Role = Role.ADMIN) -> Callable[[F], F]:
        return self._add("DELETE", path, summary, role, 200)

    def _add(
        self, method: Method, path: str, summary: str, role: Role, status: int, changes_nothing: bool = False
    ) -> Callable[[F], F]:
        def add(handler: F) -> F:
            types = get_type_hints(handler, include_extras=True)
            self.endpoints.append(
                Endpoint(method, path, summary, self.tag, role, status, handler, changes_nothing, types)
            )
            return handler

        return add
