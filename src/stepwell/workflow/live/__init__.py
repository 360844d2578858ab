"""What happens in a workflow that was started: its rows, decisions, gates, inputs, and settling."""
