"""What operators may do to a workflow and its steps."""
