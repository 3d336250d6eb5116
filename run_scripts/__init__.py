"""absl-flag runners that mirror the original code base's."""
