"""Read-only views: steps, trees, history, ticks, counts, explanations."""
