"""Fitting the flow: the published optimizer and a resumable trainer over tf.distribute."""
