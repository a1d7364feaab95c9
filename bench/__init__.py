"""Benchmarks: one module per table in docs/performance.md. Run with ``make bench``."""
