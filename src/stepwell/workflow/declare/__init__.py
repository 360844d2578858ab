"""From what a person writes to a template: declarations, their types and paths, and every problem at once."""
