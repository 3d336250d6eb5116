"""The transformer: architectures, layers, weights, precision."""
