"""Everything that runs for long: started, stopped and configured one way."""
