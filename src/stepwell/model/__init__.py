"""What Stepwell is about: states, steps, reasons, errors. Frozen, no I/O."""
