"""Creating steps: drafts are checked, placed relative to other steps, and written."""
