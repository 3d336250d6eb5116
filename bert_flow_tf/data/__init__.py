"""Tasks, their files, and the tokenizer: from text to token ids."""
