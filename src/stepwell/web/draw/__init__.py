"""Drawings as SVG: pure functions of what is shown, without I/O."""
