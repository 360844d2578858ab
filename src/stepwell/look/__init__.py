"""Reading what is there: steps, trees, history, ticks, counts."""
