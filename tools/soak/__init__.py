"""Kills, full disks, networks and clusters: run by hand, see README.md."""
