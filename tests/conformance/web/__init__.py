"""The web package on every database."""
