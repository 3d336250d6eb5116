"""Names of precisions, which are number formats, and what int8 is not for; without TensorFlow."""

from bert_flow_tf.errors import ConfigError

FLOAT32, BFLOAT16, INT8 = "float32", "bfloat16", "int8"
PRECISIONS = (FLOAT32, BFLOAT16, "float16", INT8)


def reject_int8(precision: str, reason: str) -> None:
  """Raises a ConfigError with a reason if the precision is int8."""
  if precision == INT8:
    raise int8_error(reason)


def int8_error(reason: str) -> ConfigError:
  """Returns an error that says why int8 is not possible, and what is."""
  return ConfigError(f"precision={INT8}: {reason}; use float32 or bfloat16", "precision")
