"""Atomic files and folders, settings, experiments' names and folders."""
