"""Long-running parts: how they are started, stopped and configured."""
