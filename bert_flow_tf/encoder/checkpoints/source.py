"""Finds an encoder's files by its name: packaged, in a local folder, or in the Hugging Face hub's cache."""

import dataclasses
import hashlib
import os
import pathlib
import re

from absl import logging

from bert_flow_tf.encoder.checkpoints import preset_files
from bert_flow_tf.encoder.checkpoints.declared import SENTENCE_TRANSFORMERS, find_static_embedding
from bert_flow_tf.encoder.checkpoints.files import (
  CONFIG,
  TOKENIZER_FILES,
  VOCABULARIES,
  EncoderFiles,
  checkpoint_prefixes_in,
  is_checkpoint_folder,
  is_checkpoint_prefix,
  is_saved_model,
)
from bert_flow_tf.encoder.kinds import PREFIXED, TRANSFORMER, Kind, split_name
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import EncoderError, one_line
from bert_flow_tf.io import checksums, storage
from bert_flow_tf.io.files import check_path

_PACKAGED = {"mini": pathlib.Path(__file__).parents[1] / "pretrained" / "mini"}
# The models of the paper's tables (uncased) and their cased twins, by the hub's name without "google-bert/".
HUB_NAMES = {
  "base": "bert-base-uncased",
  "large": "bert-large-uncased",
  "large-wwm": "bert-large-uncased-whole-word-masking",
  "base-cased": "bert-base-cased",
  "large-cased": "bert-large-cased",
  "large-wwm-cased": "bert-large-cased-whole-word-masking",
}
MODEL_NAMES = tuple(_PACKAGED | HUB_NAMES)

_SMALL = (CONFIG, *TOKENIZER_FILES, *SENTENCE_TRANSFORMERS, *preset_files.SMALL_FILES)
# Formats of weights. Files have hundreds of megabytes, so the second format is fetched only without the first.
_WEIGHTS = (
  ("model*.safetensors", "model.safetensors.index.json"),
  ("tf_model*.h5", "tf_model.h5.index.json"),
  preset_files.WEIGHTS_FILES,
)
# Handles of KerasHub, and the form of the names of its presets, as bert_base_en; other names may have this form, too.
_HANDLE = re.compile(r"(?:kaggle|hf|gs|modelscope)://.*|[a-z][a-z0-9.]*(?:_[a-z0-9.]+)+")
# Endings of the files of Keras.
_KERAS = (".keras", ".h5")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_REVISION = re.compile(r"\w(?!.*\.\.)[\w./-]*")
# The hub's client retries a failing request for 20 s and more, so one request of our own comes first.
_PROBE_SECONDS = 5


@dataclasses.dataclass(frozen=True)
class Source:
  """Files of an encoder.

  Attributes:
    name: the user's name for them.
    kind: kind of the encoder, by its name.
    files: the files of its folder.
    checkpoint: prefix of a checkpoint, or its folder or that of a SavedModel; None for Hugging Face's files.
    revision: commit of a model of the hub; None for others.
  """

  name: str
  kind: Kind
  files: EncoderFiles
  checkpoint: str | pathlib.Path | None = None
  revision: str | None = None

  @property
  def folder(self) -> pathlib.Path:
    """The folder of the files."""
    return self.files.folder


def find_source(settings: EncoderSettings) -> Source:
  """Returns the files of the encoder that settings name; downloads a hub model that is not cached."""
  # A name of `MODEL_NAMES` has priority over a folder or checkpoint, a folder over a hub id, unless the cache has the
  # id's revision. A cached model is used without a request to the network, so it does not change between two runs.
  # Messages name the encoder as the user did, with "static:".
  shown = os.fspath(settings.encoder_name)
  check_name(shown)
  kind, name = split_name(shown)
  if kind.has_only_vectors:
    raise EncoderError(f"model={shown}: {kind.form} has no transformer; expected a BERT, as mini", "model")
  revision = settings.model_revision
  if revision is not None and not _REVISION.fullmatch(revision):
    raise EncoderError(f"revision={revision!r}: expected a commit, branch or tag of a hub model", "revision")
  repo = HUB_NAMES.get(name, name)
  path = pathlib.Path(os.path.expanduser(name))
  if repo in HUB_NAMES.values():
    # Old caches have these models under their former names, without google-bert/.
    files = _cached(repo, settings) or _find_in_hub(f"google-bert/{repo}", shown, settings)
  elif name and (name in _PACKAGED or os.path.exists(path) or is_checkpoint_prefix(path)):
    if revision is None:
      return _local(shown, kind, _PACKAGED.get(name, path))
    # A saved calibration names its encoder so, also where a folder has that name.
    cached = _cached(name, settings)
    if cached is None:
      raise EncoderError(f"revision={revision}: only hub models have one, and {name} is a local folder", "revision")
    files = cached
  else:
    files = _find_in_hub(name, shown, settings)
  return Source(shown, kind, files, _checkpoint_in(files.folder), revision=files.folder.name)


def check_name(name: str) -> None:
  """Raises an EncoderError for a name that is no encoder's: no name of the package, folder, checkpoint or hub id."""
  kind, rest = split_name(name)
  if kind.has_only_vectors:
    return
  path = os.path.expanduser(rest)
  check_path(path, "model")
  is_name = rest in MODEL_NAMES or rest in HUB_NAMES.values() or _HUB_ID.fullmatch(rest)
  if is_name or (rest and os.path.exists(path)) or is_checkpoint_prefix(path):
    return
  expected = f"{', '.join(MODEL_NAMES)}, a local Hugging Face, KerasHub or Google folder, a hub id org/name"
  if kind is TRANSFORMER:
    expected += f", or {', '.join(each.form for each in PREFIXED)}"
  found = "no such folder or name"
  if _HANDLE.fullmatch(rest):
    found += f"; a preset of KerasHub is given by its folder, FOLDER of {preset_files.SAVE}"
  hub_id = rest.removeprefix("hf://")
  if hub_id != rest and _HUB_ID.fullmatch(hub_id):
    found += f", or by the hub id {hub_id}"
  raise EncoderError(f"model={name}: {found}; expected {expected}", "model")


def absolute_name(name: str) -> str:
  """Returns an encoder's name, with the absolute path of a folder or checkpoint that is named by a relative one."""
  kind, rest = split_name(name)
  path = os.path.expanduser(rest)
  is_name = rest in MODEL_NAMES or rest in HUB_NAMES.values()
  if is_name or not (os.path.exists(path) or is_checkpoint_prefix(path)):
    return name
  return kind.prefix + storage.absolute(path)


def _local(name: str, kind: Kind, path: pathlib.Path) -> Source:
  """Returns the files of a folder or of a checkpoint's prefix."""
  if is_checkpoint_prefix(path):
    return Source(name, kind, EncoderFiles(path.parent), str(path))
  if not path.is_dir():
    message = "a file, expected a checkpoint's prefix or the folder of Hugging Face's, KerasHub's or Google's files"
    if (path.parent / CONFIG).is_file() or is_saved_model(path.parent):
      message += f"; give its folder, {kind.prefix}{path.parent}"
    elif path.suffix in _KERAS:
      message += f"; KerasHub's is the FOLDER of {preset_files.SAVE}"
    raise EncoderError(f"model={name}: {message}", "model")
  return Source(name, kind, EncoderFiles(path), _checkpoint_in(path))


def _checkpoint_in(folder):
  """Returns a folder if it has the files of a checkpoint or of a SavedModel, else None."""
  prefixes = checkpoint_prefixes_in(folder)
  if is_saved_model(folder) and prefixes:
    message = f"a SavedModel and a checkpoint ({prefixes[0]}); name the checkpoint, {folder / prefixes[0]}"
    raise EncoderError(f"{folder}: {message}, or move it to another folder")
  if is_saved_model(folder) or is_checkpoint_folder(folder):
    return folder
  return None


def _cached(repo: str, settings: EncoderSettings) -> EncoderFiles | None:
  """Returns the files of the cached snapshot of a hub model if it has all, else None."""
  try:
    # huggingface_hub 2 raises an error for a snapshot without a file of the repository that the patterns match, and
    # a snapshot has only one format of the weights.
    snapshot = EncoderFiles(_snapshot(repo, settings, local_files_only=True, allow_patterns=list(_SMALL)))
    static_files = find_static_embedding(snapshot)
    files = static_files or snapshot
    if preset_files.is_preset(files):
      preset_files.find_preset_weights(files)
    else:
      files.find_weights()
  except (OSError, ValueError, EncoderError):  # not cached, a damaged cache, or only a part of the files
    return None
  if (files.has(CONFIG) or static_files) and any(map(files.has, VOCABULARIES)):
    return snapshot
  return None


def _find_in_hub(repo: str, name: str, settings: EncoderSettings) -> EncoderFiles:
  """Returns the files of a hub model, from the cache or downloaded; a hub out of reach fails in seconds."""
  cached = _cached(repo, settings)
  if cached is not None:
    return cached
  import huggingface_hub
  from huggingface_hub import constants

  try:
    huggingface_hub.utils.get_session().head(constants.ENDPOINT, timeout=_PROBE_SECONDS)
  except Exception as error:  # many of requests, and the client's own with HF_HUB_OFFLINE
    if settings.model_revision:
      repo = f"{repo} at revision {settings.model_revision}"
    place = f"the local cache ({settings.model_cache_dir or constants.HF_HUB_CACHE})"
    unreachable = f"{constants.ENDPOINT} cannot be reached ({type(error).__name__})"
    mend = "allow network access, set model to a folder that was downloaded elsewhere, or use the packaged model mini"
    raise EncoderError(f"model={name}: {repo} is not in {place} and {unreachable}; {mend}", "model") from error
  logging.info("Downloading %s from %s", repo, constants.ENDPOINT)
  try:
    for weights in _WEIGHTS:
      patterns = list(_SMALL + weights)
      folder = _snapshot(repo, settings, allow_patterns=patterns, etag_timeout=_PROBE_SECONDS)
      if any(any(folder.glob(pattern)) for pattern in weights):
        break
  except (OSError, ValueError) as error:  # the client's errors: HTTP, repository, disk
    about = f"{constants.ENDPOINT}: {type(error).__name__}: {one_line(error)}; check the spelling of the id"
    raise EncoderError(f"model={name}: cannot download {repo} from {about}", "model") from error
  assert folder is not None
  for path in sorted(folder.rglob("*")):
    if not _has_digest_of_name(path.resolve()):
      raise EncoderError(f"{path}: damaged, its checksum is not its name; delete {path.resolve()} and load again")
  return EncoderFiles(folder)


def _has_digest_of_name(blob):
  """Returns whether a file of the hub's cache has its checksum, which is its name; True for other files."""
  # The name of a large file is its SHA-256, the name of a small file git's SHA-1.
  if re.fullmatch("[0-9a-f]{64}", blob.name):
    return checksums.of_file(blob) == blob.name
  if re.fullmatch("[0-9a-f]{40}", blob.name) and blob.is_file():
    content = blob.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest() == blob.name
  return True


def _snapshot(repo, settings, **options):
  """Returns the folder that the hub's client finds or downloads."""
  import huggingface_hub
  from huggingface_hub import constants

  options |= {"cache_dir": settings.model_cache_dir, "endpoint": constants.ENDPOINT}
  return pathlib.Path(huggingface_hub.snapshot_download(repo, revision=settings.model_revision, **options))
