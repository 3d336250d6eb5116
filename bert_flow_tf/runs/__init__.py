"""Runs: what the runners do with models and tasks, and the folders that they write."""
