"""Defining jobs: the code behind an action."""
