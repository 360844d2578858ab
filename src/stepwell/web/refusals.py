"""What a browser gets that is refused: a page that says what happened, below the address that it asked for."""

from __future__ import annotations

from html import escape
from typing import Final

from starlette.responses import Response

from stepwell.web.problems import TITLES, HttpProblem

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} · Stepwell</title><link rel="icon" href="data:,"><link rel="stylesheet" href="{base}/login.css"></head>
<body><main><h1>{title}</h1>
<p>{detail}</p>
<p>{help}</p>
<p><a href="{base}/">Overview</a> · <small>request {request_id}</small></p></main></body></html>
"""


def refusal_page(root: str, problem: HttpProblem, request_id: str) -> Response:
    """`root` is the path that the application is mounted at."""
    page = _PAGE.format(
        title=TITLES.get(problem.status, "Error"),
        base=escape(f"{root}/step-dispatcher"),
        detail=escape(_sentence(problem.detail)),
        help=escape(_sentence(problem.help)),
        request_id=escape(request_id),
    )
    return Response(page, problem.status, problem.headers, media_type="text/html")


def _sentence(text: str) -> str:
    """Problems are written without a capital and a full stop."""
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith(('.', '?')) else '.'}" if text else ""
