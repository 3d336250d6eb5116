"""TensorFlow 1 checkpoints of the original code: read, written, and continued.

Files in reading order:

    flow         a flow from the variables of a checkpoint
    checkpoint   the variables of encoder, flow and classifier, and their file
    read         a checkpoint to folders of this package
    write        folders of this package to a checkpoint
    training     checkpoints of a training in the published format
"""
