"""The HTTP API and the dashboard: an ASGI application over one app."""
