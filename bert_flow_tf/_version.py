"""The package's version; setup.py has the same."""

__version__ = "0.4.0.dev0"
