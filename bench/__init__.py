"""Benchmarks. Each prints figures beside the bars they must hold; ratios are taken within one run."""
