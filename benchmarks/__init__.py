"""Benchmarks: the workloads, and what measures them."""
