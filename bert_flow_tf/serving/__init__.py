"""Serving: a fitted model as a SavedModel for TensorFlow Serving, or a file of OpenVINO or ONNX; clients of a server.

A SavedModel maps text, or ids of tokens, to calibrated embeddings and similarities, and a file maps ids to calibrated
embeddings; `bert_flow_tf` has `export_model`.
Clients need no TensorFlow over REST, so they are imported from their module.

Files in reading order:

    signatures     the table of a served model's functions
    served_model   the functions of the table as graphs
    served_file    models as files of OpenVINO or ONNX
    onnx_file      writes and runs files of ONNX
    settings       ExportSettings, and the files of a version
    export         export_model: writes a version, after a comparison with Python
    golden         the rows of that comparison
    metadata       metadata.json and the model card
    client         make_client: embeddings and similarities from a server, over gRPC or REST
"""

from bert_flow_tf.serving.settings import ExportError, ExportSettings

__all__ = ["ExportError", "ExportSettings"]
