"""Encoders that are no transformer: SavedModels and word vectors."""
