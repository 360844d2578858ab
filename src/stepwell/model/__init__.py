"""The data model: states, steps, reasons, errors. Frozen, no I/O."""
