"""Benchmarks, run on demand: ``python -m tests.benchmarks`` lists them.

``python -m tests.benchmarks NAME [--scale small|full] [--json FILE]`` runs one on a server of its own, prints a table
and exits 0 only if every target is reached. A benchmark is a module of this package with a docstring, whose first line
is its title, and a function ``run(server, scale)`` that returns its rows.
"""
