"""The families of encoders, a file each: how they differ from BERT, and the keys that only they have; no TensorFlow.

`architecture` has the form of a row. A new family is a file here, its row of `architectures.FAMILIES`, and its test.
"""
