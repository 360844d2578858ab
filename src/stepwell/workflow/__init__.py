"""Declared workflows: templates, requests, and the state of a workflow as a whole."""
