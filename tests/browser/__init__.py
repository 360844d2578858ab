"""The dashboard in a real browser, on a database with real history."""
