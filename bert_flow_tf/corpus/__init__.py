"""Embedding of corpora that no memory holds: input files, shards of vectors, runs that go on where they stopped."""
