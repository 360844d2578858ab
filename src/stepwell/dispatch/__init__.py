"""The dispatcher: ticks, which move steps forward one group at a time, and the sweep."""
