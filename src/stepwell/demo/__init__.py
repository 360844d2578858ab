"""`stepwell demo`: the jobs of a small shop, run in a few seconds by the real engine on a real database."""
