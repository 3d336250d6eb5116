"""Embeds corpora larger than memory, in resumable shards."""
