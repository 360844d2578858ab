"""Running steps: claim, run, finish."""
