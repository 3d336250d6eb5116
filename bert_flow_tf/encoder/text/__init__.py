"""Text to ids: tokenizers, frequencies and weights of their tokens, characters."""
