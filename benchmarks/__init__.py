"""Measurements of speed; not in the wheel."""
