"""The paper's tables and figures, computed with our encoders and shown next to the published numbers."""
