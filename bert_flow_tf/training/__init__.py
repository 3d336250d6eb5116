"""Trainings that resume to the bit, over tf.distribute: of the flow, and of a siamese encoder."""
