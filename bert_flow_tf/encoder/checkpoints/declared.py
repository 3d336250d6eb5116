"""Declarations in the folder of an encoder: files of sentence-transformers, and the defaults without them."""

import dataclasses
import json
from collections.abc import Mapping

from absl import logging

from bert_flow_tf.encoder.checkpoints.files import CONFIG, TOKENIZER_CONFIG, EncoderFiles
from bert_flow_tf.encoder.pooling import DECLARED_NAMES, DEFAULT_POOLING
from bert_flow_tf.encoder.settings import DEFAULT_MAX_SEQ_LENGTH
from bert_flow_tf.errors import ConfigError, EncoderError
from bert_flow_tf.io.checks import is_integer, is_text
from bert_flow_tf.io.files import Json

# Files of sentence-transformers: the list of modules, the declaration of the whole model, and the declarations of its
# Transformer, of which the first that is not empty counts.
_MODULES, _MODEL = "modules.json", "config_sentence_transformers.json"
_KINDS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
_TRANSFORMERS = tuple(f"sentence_{kind}_config.json" for kind in _KINDS)
_STATIC, _POOLING = "StaticEmbedding", "Pooling"
_STATIC_FILES = (f"*_{_STATIC}/tokenizer.json", f"*_{_STATIC}/model.safetensors")
# Patterns of the files of a declaration.
DECLARATION = (_MODULES, _MODEL, *_TRANSFORMERS, f"*_{_POOLING}/{CONFIG}")
SENTENCE_TRANSFORMERS = (*DECLARATION, *_STATIC_FILES)
# Tokens of a text without a declared limit; an encoder has fewer positions.
_UNLIMITED = 2**31 - 1
# Keys of a Transformer's configuration that decide embeddings, each with the values that are supported.
_SUPPORTED = {
  "transformer_task": (None, "feature-extraction"),
  "module_output_name": (None, "token_embeddings"),
  **dict.fromkeys(("processing_kwargs", "query_length", "document_length", "query_expansion"), (None, {})),
  **dict.fromkeys(("tokenizer_args", "processor_kwargs"), (None, {})),
}
# Roles of texts in a search, each with the names that its prompt may have, of which the first with a text counts.
QUERY, DOCUMENT = "query", "document"
_ROLES = {QUERY: (QUERY,), DOCUMENT: (DOCUMENT, "passage", "corpus")}


def role_of(prompt_type: object) -> str:
  """Returns the role that a "query", "document" or "passage" has, or mteb's PromptType; ConfigError for others."""
  name = str(getattr(prompt_type, "value", prompt_type))
  for role, names in _ROLES.items():
    if name in names:
      return role
  raise ConfigError(f"prompt_type={name!r}: expected {' or '.join(map(repr, _ROLES))}", argument="prompt_type")


@dataclasses.dataclass(frozen=True)
class Declared:
  """Declaration of an encoder's files or its kind; without a declaration the defaults of this package."""

  sentence_embedding_type: str = DEFAULT_POOLING
  max_seq_length: int = DEFAULT_MAX_SEQ_LENGTH
  # The file that declares them, and the part of the declaration that is not supported; "" for none.
  source: str = ""
  unsupported: str = ""
  # The file, if any, that declares that text is lower-cased before it reaches the tokenizer.
  lower_case_by: str = ""
  # Prompts, which are texts to put before a sentence, by their names; the default prompt, "" for none; and whether the
  # pooling reads the prompt's tokens.
  prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
  prompt: str = ""
  pools_prompt: bool = True
  # Number of dimensions that are kept; None for all.
  truncate_dim: int | None = None
  # Name of a calibration that is in the vectors of a static model of ours; "" for none.
  calibration: str = ""
  # No file declares them, but a static encoder has others.
  token_weights: str = "uniform"

  def pooling(self) -> str:
    """Returns the declared pooling; EncoderError if it is not supported."""
    if self.unsupported:
      raise EncoderError(
        f"sentence_embedding_type: {self.source} declares {self.unsupported}, which is not supported; give another",
        argument="sentence_embedding_type",
      )
    return self.sentence_embedding_type

  def prompt_of(self, role: str) -> str | None:
    """Returns the prompt of a role: "" if the files declare prompts of other names alone, None if they declare none."""
    if not self.prompts:
      return None
    return next((self.prompts[name] for name in _ROLES[role] if self.prompts.get(name)), "")

  def choose_prompt(self, given: str | None, name: str) -> str:
    """Returns the text before each sentence: `given`, or the declared one of the encoder `name`, with a warning."""
    prompt = given or ""
    if given is None and self.prompt:
      prompt = self.prompt
      logging.warning('%s: declares the prompt %r, which is put before each sentence; prompt="" for none', name, prompt)
    self.check_prompt(prompt)
    return prompt

  def check_prompt(self, prompt: str) -> None:
    """Raises an EncoderError for a prompt that is no text, or whose tokens are not to be pooled."""
    if not is_text(prompt):
      raise EncoderError(f"prompt={prompt!r}: expected text, which UTF-8 can hold", argument="prompt")
    if prompt and not self.pools_prompt:
      raise EncoderError(
        f"prompt={prompt!r}: {self.source} declares include_prompt false, a pooling without the tokens of the prompt, "
        'which is not supported; give prompt=""',
        argument="prompt",
      )

  def check_letter_case(self, lower: bool) -> None:
    """Raises an EncoderError if text is to be lower-cased for a tokenizer that keeps capital letters."""
    if self.lower_case_by and not lower:
      raise EncoderError(
        f"{self.lower_case_by}: do_lower_case is true, and the tokenizer keeps capital letters; set it to false there "
        "and lower-case the sentences yourself"
      )

  def log(self, sentence_embedding_type: str, max_seq_length: int) -> None:
    """Logs the values that are used, and the declared ones where they differ."""
    if self.source:
      pooling, length = str(sentence_embedding_type), str(max_seq_length)
      declared = self.unsupported or self.sentence_embedding_type
      if sentence_embedding_type != declared:
        pooling += f" ({declared} is declared)"
      if max_seq_length != self.max_seq_length:
        length += f" ({self.max_seq_length} is declared)"
      logging.info("%s: sentence_embedding_type %s, max_seq_length %s", self.source, pooling, length)
    if self.truncate_dim is not None:
      logging.info("%s: truncate_dim %s is declared", self.source, self.truncate_dim)


def read_declared(files: EncoderFiles) -> tuple[Declared, EncoderFiles]:
  """Returns a folder's declaration, and BERT's files: `files`, or the files of a part, such as 0_Transformer."""
  path, modules = files.path(_MODULES), read_modules(files)
  if not modules:
    return Declared(), files
  first, transformer = modules[0]
  if first != "Transformer" or not transformer.folder.is_dir():
    message = f"the first module is {first} in {transformer.folder}, expected the folder of a Transformer"
    raise EncoderError(f"{path}: {message}")
  # The first pooling counts; any other module than a normalization is not supported.
  embedding_type, unsupported, pools_prompt = "", "", True
  for kind, part in modules[1:]:
    if kind == _POOLING and not embedding_type:
      embedding_type, unsupported, pools_prompt = _declared_pooling(part)
    elif kind == "Normalize":
      logging.info("%s normalizes the embeddings; here they keep their length, with the same cosines", path)
    else:
      unsupported = unsupported or f"the module {kind}"
  if not embedding_type:
    embedding_type, unsupported = DEFAULT_POOLING, unsupported or "no pooling"
  declared = Declared(embedding_type, source=str(path), unsupported=unsupported, pools_prompt=pools_prompt)
  declared = dataclasses.replace(declared, **declared_of_model(files))
  return _with_transformer(declared, transformer), transformer


def read_modules(files: EncoderFiles) -> list[tuple[str, EncoderFiles]]:
  """Returns the kinds and files of the modules of a folder of sentence-transformers; [] for other folders."""
  if not files.has(_MODULES):
    return []
  modules = []
  try:
    for module in files.json(_MODULES, list):
      modules.append((module["type"].rsplit(".", 1)[-1], files.part(module["path"])))
  except (AttributeError, KeyError, TypeError):
    modules = []
  if not modules:
    path = files.path(_MODULES)
    raise EncoderError(f"{path}: expected a list of modules, each with type and path; download it again")
  return modules


def declaration(files: EncoderFiles) -> dict[str, bytes]:
  """Returns {name: content} of the declarations of a folder of sentence-transformers, for a folder with one encoder."""
  # The Transformer has no folder of its own there.
  contents: dict[str, bytes] = {}
  modules: list[Json] = []
  if not read_modules(files):
    return contents
  for number, (kind, part) in enumerate(read_modules(files)):
    module = {**files.json(_MODULES, list)[number], "path": ""}
    if number:
      module["path"] = f"{number}_{kind}"
    modules.append(module)
    if kind == _POOLING:
      contents[f"{number}_{kind}/{CONFIG}"] = part.content(CONFIG)
    for name in _TRANSFORMERS:
      if not number and part.has(name):
        contents[name] = part.content(name)
  if files.has(_MODEL):
    contents[_MODEL] = files.content(_MODEL)
  contents[_MODULES] = (json.dumps(modules, indent=2) + "\n").encode()
  return contents


def find_static_embedding(files: EncoderFiles) -> EncoderFiles | None:
  """Returns the files of the StaticEmbedding of a folder of sentence-transformers; None for other folders."""
  modules = read_modules(files)
  if modules and modules[0][0] == _STATIC:
    return modules[0][1]
  return None


def _declared_pooling(files):
  """Returns the declaration of a folder 1_Pooling.

  The sentence_embedding_type and "", or the default and the unsupported part; and whether it reads a prompt's tokens.
  """
  path, values = files.path(CONFIG), files.json(CONFIG, required=True)
  # Newer versions name the modes; the others have a flag for each.
  modes = values.get("pooling_mode") or []
  if isinstance(modes, str):
    modes = [modes]
  if not isinstance(modes, list) or not all(map(is_text, modes)):
    raise _wrong(path, "pooling_mode", modes, "the name of a pooling, or a list of names")
  if not isinstance(values.get("include_prompt", True), bool):
    raise _wrong(path, "include_prompt", values["include_prompt"], "true or false")
  flags = [key for key, on in values.items() if key.startswith("pooling_mode_") and on]
  names = modes + [flag.removeprefix("pooling_mode_") for flag in flags]
  name = " and ".join(names) or "none"
  pools_prompt = values.get("include_prompt") is not False
  if name in DECLARED_NAMES:
    return DECLARED_NAMES[name], "", pools_prompt
  return DEFAULT_POOLING, f"the pooling {name}", pools_prompt


def declared_of_model(files: EncoderFiles) -> Json:
  """Returns the prompts and the truncate_dim of a config_sentence_transformers.json as fields of `Declared`."""
  path, values = files.path(_MODEL), files.json(_MODEL)
  prompts, default = values.get("prompts") or {}, values.get("default_prompt_name")
  texts = {}
  if isinstance(prompts, dict):
    texts = {name: text or "" for name, text in prompts.items()}
  if not isinstance(prompts, dict) or not all(map(is_text, texts.values())):
    raise _wrong(path, "prompts", prompts, "texts in UTF-8 by their names")
  if default is not None and default not in list(texts):
    raise _wrong(path, "default_prompt_name", default, f"one of the prompts ({', '.join(texts) or 'none'})")
  truncate_dim = values.get("truncate_dim")
  if truncate_dim is not None and not (is_integer(truncate_dim, 1) and truncate_dim <= _UNLIMITED):
    raise _wrong(path, "truncate_dim", truncate_dim, "a positive integer")
  similarity = values.get("similarity_fn_name")
  if similarity not in (None, "cosine"):
    logging.warning("%s: similarity_fn_name is %s; similarities are cosines here", path, similarity)
  return {"prompts": texts, "prompt": texts.get(default, ""), "truncate_dim": truncate_dim}


def _with_transformer(declared, files):
  """Returns a declaration with the length and the letter case that the folder of a Transformer declares."""
  for name in _TRANSFORMERS:
    path, values = files.path(name), files.json(name)
    if values:
      break
  for key, supported in _SUPPORTED.items():
    value = values.get(key)
    if isinstance(value, dict):
      value = {name: part for name, part in value.items() if name != "trust_remote_code"}  # no program is trusted here
    if value not in supported and not declared.unsupported:
      declared = dataclasses.replace(declared, unsupported=f"{key} {value} in {path.name}")
  lower_case_by = ""
  if values.get("do_lower_case"):
    lower_case_by = str(path)
  length = _length(files, path, values.get("max_seq_length"))
  return dataclasses.replace(declared, max_seq_length=length, lower_case_by=lower_case_by)


def _length(files, path, length):
  """Returns the largest number of tokens that the file at `path` declares, or else the tokenizer's."""
  key = "max_seq_length"
  if length is None:
    # sentence-transformers 6 saves the limit as transformers does. Without a limit, the positions are the limit.
    key, path = "model_max_length", files.path(TOKENIZER_CONFIG)
    length = files.json(TOKENIZER_CONFIG).get(key)
    if length is None:
      length = _UNLIMITED
  if isinstance(length, float) and length.is_integer():
    length = int(length)  # 1e30, which stands for no limit
  if not is_integer(length, 3):
    raise _wrong(path, key, length, "an integer of at least 3")
  return min(int(length), _UNLIMITED)


def _wrong(path, key, value, expected):
  """Returns the error of a value in a file."""
  return EncoderError(f"{path}: {key} is {repr(value)[:60]}, expected {expected}; download it again")
