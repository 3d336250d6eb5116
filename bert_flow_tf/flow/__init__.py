"""The Glow-style flow: Keras layers that give `tfp.bijectors`."""
