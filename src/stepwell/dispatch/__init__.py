"""The tick: what moves steps forward, one group at a time."""
