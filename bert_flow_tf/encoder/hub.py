"""Folder of a model by its name: packaged, local, or from the Hugging Face hub's cache."""

import os
import pathlib
import re

import huggingface_hub
from absl import logging
from huggingface_hub import constants

from bert_flow_tf.encoder import folder as folder_lib
from bert_flow_tf.errors import EncoderError

_PACKAGED = {"mini": pathlib.Path(__file__).parent / "pretrained" / "mini"}

# The models of the paper's tables (uncased) and their cased twins, by the hub's name without "google-bert/".
HUB_NAMES = {
  "base": "bert-base-uncased",
  "large": "bert-large-uncased",
  "large-wwm": "bert-large-uncased-whole-word-masking",
  "base-cased": "bert-base-cased",
  "large-cased": "bert-large-cased",
  "large-wwm-cased": "bert-large-cased-whole-word-masking",
}

MODEL_NAMES = (*_PACKAGED, *HUB_NAMES)

_REQUIRED = ("config.json", "vocab.txt")
_OPTIONAL = ("tokenizer_config.json", "modules.json", "sentence_bert_config.json", "*_Pooling/config.json")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_REVISION = re.compile(r"\w(?!.*\.\.)[\w./-]*")
# The hub's client retries a failing request for 20 s and more, so one request of our own comes first.
_PROBE_SECONDS = 5


def resolve(
  name: str | os.PathLike, cache_dir: str | os.PathLike | None = None, revision: str | None = None
) -> pathlib.Path:
  """Returns the folder of a model; downloads it into the hub's cache if needed.

  A cached model is used without a request to the network, so a model does not change between two runs.

  Args:
    name: one of `MODEL_NAMES`, a hub name of those ("bert-base-uncased"), a local Hugging Face folder, or a hub id
      `org/name`. A name has priority over a folder, a folder over a hub id, unless the cache has the id's `revision`.
    cache_dir: folder of the hub's cache; None for its default (HF_HOME, HF_HUB_CACHE).
    revision: commit, branch or tag of a hub model; None for main.

  Returns:
    Path of a folder, whose content `bert.load_bert` checks.

  Raises:
    EncoderError: no such name, folder or hub model, or a hub model that is neither cached nor reachable; or a revision
      of a model that is not from the hub.
  """
  if revision is not None and not (isinstance(revision, str) and _REVISION.fullmatch(revision)):
    raise EncoderError(f"revision={revision!r}: expected a commit, branch or tag of a hub model", argument="revision")
  if not isinstance(name, str | os.PathLike):
    raise EncoderError(f"model={name!r}: expected a name (mini, base, ...), a folder or a hub id", argument="model")
  name, cache_dir = os.fspath(name), None if cache_dir is None else os.fspath(cache_dir)
  if name in HUB_NAMES or name in HUB_NAMES.values():
    repo = HUB_NAMES.get(name, name)
    # Old caches have these models under their former names, without google-bert/.
    return _cached_folder(repo, cache_dir, revision) or _hub_folder(f"google-bert/{repo}", name, cache_dir, revision)
  path = os.path.expanduser(name)
  if revision is not None and (name in _PACKAGED or os.path.exists(path)):
    cached = _cached_folder(name, cache_dir, revision) if _HUB_ID.fullmatch(name) else None
    if cached is not None:
      return cached  # as a saved calibration names its encoder, in a folder with a folder of that name
    kind = "packaged" if name in _PACKAGED else "a local folder"
    raise EncoderError(
      f"revision={revision}: only models of the hub have revisions, model={name} is {kind}", "revision"
    )
  if name in _PACKAGED:
    return _PACKAGED[name]
  if os.path.isdir(path):
    return pathlib.Path(path)
  if os.path.exists(path):
    raise EncoderError(
      f"model={name}: expected a folder, got a file; set model to the Hugging Face folder with config.json, vocab.txt "
      "and model.safetensors, or to Google's with bert_config.json, vocab.txt and bert_model.ckpt",
      argument="model",
    )
  if _HUB_ID.fullmatch(name):
    return _hub_folder(name, name, cache_dir, revision)
  raise EncoderError(
    f"model={name}: no such folder or name; expected {', '.join(MODEL_NAMES)}, a local Hugging Face or Google folder, "
    "or a hub id such as google-bert/bert-base-uncased",
    argument="model",
  )


def commit_of(name: str | os.PathLike, folder: pathlib.Path) -> str | None:
  """Returns the commit of a model by its name and the folder that `resolve` returned; None if it is not of the hub."""
  path = pathlib.Path(os.path.expanduser(name))
  is_local = folder in (path, path.parent)  # a folder, or a checkpoint in it
  return folder.name if folder.parent.name == "snapshots" and not is_local else None


def _cached_folder(repo: str, cache_dir: str | None, revision: str | None) -> pathlib.Path | None:
  """Returns the cached snapshot of a hub model if it has all files, else None."""
  try:
    folder = pathlib.Path(
      huggingface_hub.snapshot_download(repo, revision=revision, cache_dir=cache_dir, local_files_only=True)
    )
  except (OSError, ValueError):  # the client's errors: not cached, or a damaged cache
    return None
  files = [path.name for path in folder.iterdir() if path.exists()]
  return folder if set(_REQUIRED) <= set(files) and _weights_complete(folder, files) else None


def _weights_complete(folder: pathlib.Path, files: list[str]) -> bool:
  """Returns whether a snapshot has a weights file, with all shards of an index."""
  return any(set(folder_lib.shards(folder / name)) <= set(files) for name in folder_lib.WEIGHTS if name in files)


def _hub_folder(repo: str, name: str, cache_dir: str | None, revision: str | None) -> pathlib.Path:
  """Returns the snapshot folder of a hub model, from the cache or downloaded."""
  folder = _cached_folder(repo, cache_dir, revision)
  if folder is not None:
    return folder
  _check_reachable(f"{repo} at revision {revision}" if revision else repo, name, cache_dir)
  logging.info("Downloading %s from %s", repo, constants.ENDPOINT)
  try:
    info = huggingface_hub.HfApi(endpoint=constants.ENDPOINT).model_info(repo, revision=revision)
    files = [sibling.rfilename for sibling in info.siblings or []]
    patterns = [*_REQUIRED, *_OPTIONAL]
    # Only one format of the weights: many models have several, each of hundreds of megabytes.
    for weights in [name for name in folder_lib.WEIGHTS if name in files][:1]:
      stem, extension = weights.removesuffix(".index.json").rsplit(".", 1)
      patterns += [weights, f"{stem}-*.{extension}"]
    return pathlib.Path(
      huggingface_hub.snapshot_download(
        repo,
        revision=revision,
        cache_dir=cache_dir,
        allow_patterns=patterns,
        endpoint=constants.ENDPOINT,
        etag_timeout=_PROBE_SECONDS,
      )
    )
  except (OSError, ValueError) as error:  # the client's errors: HTTP, repository, disk
    raise EncoderError(
      f"model={name}: cannot download {repo} from {constants.ENDPOINT}: {_one_line(error)}; check the spelling of the "
      "id, or download the model elsewhere and set model to its folder",
      argument="model",
    ) from error


def _check_reachable(repo: str, name: str, cache_dir: str | None) -> None:
  """Raises EncoderError within seconds if the hub cannot be reached."""
  try:
    huggingface_hub.utils.get_session().head(constants.ENDPOINT, timeout=_PROBE_SECONDS)
  except Exception as error:  # many of requests, and the client's own with HF_HUB_OFFLINE
    raise EncoderError(
      f"model={name}: {repo} is not in the local cache ({cache_dir or constants.HF_HUB_CACHE}) and "
      f"{constants.ENDPOINT} cannot be reached ({type(error).__name__}); allow network access, or download its "
      "config.json, vocab.txt, tokenizer_config.json and model.safetensors elsewhere and set model to that folder, or "
      "use the packaged model mini",
      argument="model",
    ) from error


def _one_line(error: Exception) -> str:
  """Returns an exception's type and the beginning of its first line."""
  lines = str(error).strip().splitlines() or [""]
  return f"{type(error).__name__}: {lines[0][:200]}"
