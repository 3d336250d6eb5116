"""Speed of whole tasks, of the flow's fit, of encoders and of a served model, each as a ratio to another method."""
