"""Benchmarks: run on demand, never by the ordinary suite."""
