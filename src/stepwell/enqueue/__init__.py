"""Creating steps: drafts are checked, placed among the others, and written with what they may decide."""
