"""What people do to a running system: retry, cancel, skip, pause, drain; and what watches over it."""
