"""From the value of `--model` to a local folder: packaged, given, or from the Hugging Face hub's cache."""

import os
import pathlib
import re

import huggingface_hub
from absl import logging
from huggingface_hub import constants
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

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
_OPTIONAL = ("tokenizer_config.json",)
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# The hub's client retries a failing request for 20 s and more: one request of our own decides first.
_PROBE_SECONDS = 5


def resolve(name, cache_dir=None):
  """Finds the folder that a `--model` value means, downloading it into the hub's cache where needed.

  What is in the cache is used without asking the network, so a model does not change between two runs.

  Args:
    name: one of `MODEL_NAMES`, a hub name of those ("bert-base-uncased"), a local Hugging Face folder, or a
      hub id `org/name`. A folder wins over a hub id of the same spelling, a name over a folder.
    cache_dir: folder of the hub's cache; its default (HF_HOME, HF_HUB_CACHE) if None.

  Returns:
    pathlib.Path of a folder. Its content is for `bert.load_bert` to check.

  Raises:
    EncoderError: no such name, folder or hub model, or a hub model that is neither cached nor reachable.
  """
  if not isinstance(name, str | os.PathLike):
    raise EncoderError(f"the model is {name!r}, expected a name, a folder or a hub id: mini, base, ... .")
  name = os.fspath(name)
  if name in _PACKAGED:
    return _PACKAGED[name]
  if name in HUB_NAMES or name in HUB_NAMES.values():
    repo = HUB_NAMES.get(name, name)
    # Old caches hold these models under their former, bare names.
    return _cached_folder(repo, cache_dir) or _hub_folder(f"google-bert/{repo}", name, cache_dir)
  path = os.path.expanduser(name)
  if os.path.isdir(path):
    return pathlib.Path(path)
  if os.path.exists(path):
    raise EncoderError(
      f"--model={name}: found a file, expected the Hugging Face folder that holds config.json, vocab.txt and "
      "model.safetensors, or Google's with bert_config.json, vocab.txt and bert_model.ckpt: pass the folder."
    )
  if _HUB_ID.fullmatch(name):
    return _hub_folder(name, name, cache_dir)
  raise EncoderError(
    f"--model={name}: no such folder, and not a known name; allowed: {', '.join(MODEL_NAMES)}, a local "
    "Hugging Face or Google folder, or a hub id such as google-bert/bert-base-uncased."
  )


def _cached_folder(repo, cache_dir):
  """The cached snapshot of a hub model if it is complete, else None."""
  config = huggingface_hub.try_to_load_from_cache(repo, "config.json", cache_dir=cache_dir)
  if not isinstance(config, str):
    return None
  folder = pathlib.Path(config).parent
  complete = all((folder / file).exists() for file in _REQUIRED)
  # Of Google's models the name tells the case; of others, that the file does not exist must be known.
  if repo.removeprefix("google-bert/") not in HUB_NAMES.values():
    known = [huggingface_hub.try_to_load_from_cache(repo, file, cache_dir=cache_dir) for file in _OPTIONAL]
    complete = complete and None not in known
  return folder if complete and any(_weights_complete(folder, file) for file in folder_lib.WEIGHTS) else None


def _weights_complete(folder, weights):
  """Whether a snapshot holds a weights file, and all shards of an index."""
  path = folder / weights
  return path.exists() and all((folder / shard).exists() for shard in folder_lib.shards(path))


def _hub_folder(repo, name, cache_dir):
  """Snapshot folder of a hub model, from the cache or else downloaded."""
  folder = _cached_folder(repo, cache_dir)
  if folder is not None:
    return folder
  _check_reachable(repo, name, cache_dir)
  logging.info("Downloading %s from %s", repo, constants.ENDPOINT)
  try:
    folder = _download(repo, "config.json", cache_dir, None).parent
    # One commit for all files: its name is the snapshot folder's.
    for file in (*_REQUIRED[1:], *_OPTIONAL):
      _download_if_there(repo, file, cache_dir, folder.name)
    for weights in folder_lib.WEIGHTS:
      if _download_if_there(repo, weights, cache_dir, folder.name):
        for shard in folder_lib.shards(folder / weights):
          _download(repo, shard, cache_dir, folder.name)
        break
  except (OSError, ValueError, EntryNotFoundError) as error:  # the client's errors: HTTP, repository, disk
    raise EncoderError(
      f"--model={name}: cannot download {repo} from {constants.ENDPOINT}: {_one_line(error)}; check the "
      "spelling of the id, or download the model elsewhere and pass --model=FOLDER."
    ) from error
  return folder


def _download(repo, filename, cache_dir, revision):
  """Path of a hub model's file in the cache, downloaded where it is not there yet."""
  return pathlib.Path(huggingface_hub.hf_hub_download(repo, filename, cache_dir=cache_dir, revision=revision))


def _download_if_there(repo, filename, cache_dir, revision):
  """The same, or None where the model has no such file."""
  try:
    return _download(repo, filename, cache_dir, revision)
  except LocalEntryNotFoundError:  # a subclass of EntryNotFoundError, but it means: no network
    raise
  except EntryNotFoundError:
    return None


def _check_reachable(repo, name, cache_dir):
  """Fails in seconds where the hub cannot be reached."""
  try:
    huggingface_hub.utils.get_session().head(constants.ENDPOINT, timeout=_PROBE_SECONDS)
  except Exception as error:  # requests' many, and the client's own when HF_HUB_OFFLINE is set
    raise EncoderError(
      f"--model={name}: {repo} is not in the local cache ({cache_dir or constants.HF_HUB_CACHE}) and "
      f"{constants.ENDPOINT} cannot be reached ({type(error).__name__}): allow network access, or download "
      "its config.json, vocab.txt, tokenizer_config.json and model.safetensors elsewhere and pass "
      "--model=FOLDER, or try the packaged --model=mini."
    ) from error


def _one_line(error):
  """The first line of an exception, cut to a readable length."""
  lines = str(error).strip().splitlines() or [""]
  return f"{type(error).__name__}: {lines[0][:200]}"
