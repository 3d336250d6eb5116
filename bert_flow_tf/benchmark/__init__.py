"""Speed of whole tasks, of the flow's fit, of the encoder and of a served model, each as a ratio to another method."""
