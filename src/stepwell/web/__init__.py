"""The HTTP API and the dashboard: an ASGI application over one app.

>>> from stepwell import Stepwell
>>> from stepwell.web import application
>>> web = application(Stepwell("sqlite://"), token="a-secret-of-16-characters-or-more")

Serve `web` with an ASGI server, or mount it: `Mount("/jobs", web)` in Starlette, `mount("/jobs", web)` in FastAPI.
"""

from stepwell.web.application import Application, application
from stepwell.web.guard.access import Token
from stepwell.web.visitor import Role, Visitor

__all__ = ["Application", "Role", "Token", "Visitor", "application"]
