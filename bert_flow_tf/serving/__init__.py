"""A fitted encoder and calibration as a SavedModel for TF Serving."""
