"""Errors as RFC 9457 describes them: `application/problem+json` with what happened and what can be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.responses import Response

CONTENT_TYPE: Final = "application/problem+json"
TITLES: Final = {
    400: "Bad request",
    401: "Sign-in required",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "Refused",
    411: "Length required",
    413: "Request too large",
    414: "Address too long",
    415: "Unsupported content type",
    421: "Unknown host",
    422: "Invalid request",
    429: "Too many requests",
    500: "Internal error",
    501: "Not available",
    503: "Temporarily unavailable",
}


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong (`detail`) and, if it is known, what the caller can do (`help`)."""

    title: str
    status: int
    detail: str
    help: str = ""
    request_id: str = ""
    type: str = "about:blank"


class HttpProblem(Exception):
    """Raised by a handler: becomes a response of this status."""

    def __init__(self, status: int, detail: str, help: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.help, self.headers = status, detail, help, dict(headers or {})


def problem_response(
    status: int, detail: str, help: str = "", request_id: str = "", headers: dict[str, str] | None = None
) -> Response:
    problem = Problem(TITLES.get(status, "Error"), status, detail, help, request_id)
    return Response(_encode(problem), status, media_type=CONTENT_TYPE, headers=headers)


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value)
