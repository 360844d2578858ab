"""Scripts and style sheets: read once, compressed once, served from memory below an address that changes with them."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from stepwell.look import palette
from stepwell.web.problems import HttpProblem

FOLDER: Final = Path(__file__).parents[1] / "static"
TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class File:
    content: bytes
    compressed: bytes
    media_type: str


@cache
def files() -> dict[str, File]:
    """Every file by its name; the palette is one of them."""
    found = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.suffix in TYPES}
    found["palette.css"] = palette.css().encode()
    return {
        name: File(content, gzip.compress(content, 9, mtime=0), TYPES[Path(name).suffix])
        for name, content in found.items()
    }


@cache
def version() -> str:
    """Changes with any file, so that browsers may keep them for ever."""
    digest = hashlib.sha256()
    for name, file in sorted(files().items()):
        digest.update(name.encode() + b"\0" + file.content)
    return digest.hexdigest()[:12]


async def static_file(request: Request) -> Response:
    file = files().get(request.path_params["name"])
    if file is None or request.path_params["version"] != version():
        raise HttpProblem(404, "this file does not exist")
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)
