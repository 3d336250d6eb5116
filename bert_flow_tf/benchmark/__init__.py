"""The flow, whole tasks, the encoder and a served model, each measured against another way of the same work."""
