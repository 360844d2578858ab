"""The web package, without a server."""
