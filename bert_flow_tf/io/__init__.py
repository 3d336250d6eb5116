"""Files and folders on disk that are whole or absent."""
