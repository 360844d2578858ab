"""The routes of the screens. Paths are relative to `/step-dispatcher`."""

from __future__ import annotations

from starlette.routing import BaseRoute

from stepwell.web.site import Site


def routes(site: Site) -> list[BaseRoute]:
    return []
