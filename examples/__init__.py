"""Workflows to read and to run; each is a test, too."""
