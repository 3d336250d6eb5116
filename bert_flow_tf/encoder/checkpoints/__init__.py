"""Files of encoders: where they are, what they declare, their weights."""
