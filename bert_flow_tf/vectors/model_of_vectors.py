"""The model that embedded vectors: the values that decide its embeddings, a comparison with them, and its loading."""

from typing import TYPE_CHECKING

from bert_flow_tf.encoder.identity import EncoderIdentity, other_engine
from bert_flow_tf.errors import BertFlowError, EncoderError
from bert_flow_tf.io.files import Json
from bert_flow_tf.io.settings import differences
from bert_flow_tf.vectors.manifest import with_sha256_of_values
from bert_flow_tf.vectors.vector_folder import VectorFolder

if TYPE_CHECKING:
  from bert_flow_tf.model import SentenceModel


def load_model_of(
  vectors: VectorFolder,
  model: str | None = None,
  calibration_folder: str | None = None,
  cache_dir: str | None = None,
  query_prompt: str | None = None,
  engine: str | None = None,
) -> "SentenceModel":
  """Loads the model by which vectors were embedded, from where the manifest says or from other places.

  `model` and `calibration_folder`: name or folder of the same encoder, and folder of the same calibration; None for the
  manifest's, as `query_prompt` and `engine`. An EncoderError says what differs.
  """
  from bert_flow_tf.encoder.loading import load_fitted_encoder
  from bert_flow_tf.model import SentenceModel

  where = f"vectors={vectors.folder}"
  identity = EncoderIdentity.from_dict(vectors.manifest["encoder"], where)
  settings = {}
  for keyword, value in {"query_prompt": query_prompt, "engine": engine}.items():
    if value is not None:
      settings[keyword] = value
  encoder, arguments = load_fitted_encoder(identity, where, model, cache_dir, **settings)
  if calibration_folder is None:
    calibration_folder = vectors.manifest.get("calibration", {}).get("folder")
  try:
    if calibration_folder is None:
      loaded = SentenceModel(encoder, **arguments)
    else:
      loaded = SentenceModel.load(calibration_folder, model=encoder, allow_other_encoder=True, **arguments)
  except BertFlowError as error:
    # The vectors' own length and pooling, which the user did not give, say nothing.
    reason = "" if error.argument in arguments else f" ({error})"
    message = f"{where}: embedded by {identity.name}, another encoder or calibration than {encoder.name}{reason}"
    raise EncoderError(f"{message}; take the same model", argument="vectors") from error
  embedder = with_sha256_of_values(vectors.embedder, {"calibration": {"folder": calibration_folder}})
  check_embedder(embedder, loaded, where)
  return loaded


def embedder_values(model: "SentenceModel") -> Json:
  """Returns the JSON values of a model that decide its embeddings, as `Embedder.identity`, without versions."""
  return {**model.identity.deciding(), "calibration_sha256": model.steps_checksum}


def check_embedder(embedder: Json, model: "SentenceModel", where: str) -> None:
  """Raises an EncoderError if a model gives other embeddings than the values of an `Embedder.identity` at `where`."""
  # Documents may have been embedded with their prompt.
  values = {name: value for name, value in embedder.items() if name != "versions"}
  found = embedder_values(model)
  different = differences(values, found)
  if not different:
    return
  of_documents = embedder_values(model.for_documents())
  if differences(values, of_documents):
    shown = "; ".join(different[:3])
    remedy = other_engine(values, found) or other_engine(values, of_documents) or "the same model"
    message = f"{where}: embedded by another encoder or calibration than {model.name} ({shown}); take {remedy}"
    raise EncoderError(message, argument="vectors")
