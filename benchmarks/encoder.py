"""Sentences per second of the encoder (`benchmarks/run.py --benchmark=encoder`).

`SentenceEncoder.encode`, with TensorFlow and with OpenVINO, sentence-transformers on PyTorch, ONNX Runtime and OpenVINO
take turns: same weights, same distinct sentences, same batch size and number of threads, float32, sorted by length;
--precision=bfloat16 adds those of bfloat16, and int8 those of bfloat16 and int8. Each embeds all sentences in batches,
and the first ones one at a time, as queries come. Ours splits a batch into steps that suit a CPU's cache,
as for every user; with a small batch size the others take steps of the same size. The others run in a process of their
own (`worker.py`), with a Python that has them installed. Figures are logged as they come.
"""

import functools
import importlib.metadata
import importlib.util
import itertools
import pathlib
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from benchmarks import measure
from benchmarks.worker import single_seconds
from bert_flow_tf.encoder.checkpoints.files import EncoderFiles
from bert_flow_tf.encoder.checkpoints.loaded_model import LoadedModel
from bert_flow_tf.encoder.saving import save_encoder
from bert_flow_tf.encoder.sentence_encoder import SentenceEncoder
from bert_flow_tf.encoder.settings import ENGINES, OPENVINO
from bert_flow_tf.encoder.text.folder import FolderTokenizer, load_tokenizer
from bert_flow_tf.encoder.transformer.architectures import BERT
from bert_flow_tf.encoder.transformer.config import EncoderConfig
from bert_flow_tf.encoder.transformer.number_formats import FLOAT32, INT8
from bert_flow_tf.encoder.transformer.weights import random_transformer
from bert_flow_tf.io.cpus import usable_cpus

OURS = "ours"
_BFLOAT16 = "bfloat16"
# {precision: the others that take turns with ours}
OTHERS = {
  FLOAT32: ("sentence-transformers", "ONNX Runtime", "OpenVINO"),
  _BFLOAT16: ("OpenVINO, bfloat16",),
  INT8: ("ONNX Runtime, int8", "OpenVINO, int8"),
}
MATRIX_RATE = "matrix rate"
# BERT-base and BERT-large (Devlin et al. 2019, section 3), a BERT of all-MiniLM-L6-v2's shape, and ModernBERT-base
# (Warner et al. 2024, table 4).
MINILM, LARGE = "minilm", "bert-large"
SHAPES = {
  BERT: {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
  },
  LARGE: {
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "max_position_embeddings": 512,
  },
  MINILM: {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
  },
  "modernbert": {
    "hidden_size": 768,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "intermediate_size": 1152,
    "max_position_embeddings": 8192,
    "local_attention": 128,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
  },
}
# Larger matrix products are not computed at a higher rate on CPUs, and on GPUs.
_MATRIX, _GPU_MATRIX = 1536, 8192
# Sentences that ours embeds before the first round, which loads and traces.
_WARM_UP = 16
# Sentences that each embeds one at a time in a round.
_SINGLE = 48


def _name(engine: str, precision: str) -> str:
  """Returns the name of a method; float32 is not named."""
  return engine if precision == FLOAT32 else f"{engine}, {precision}"


def _engines() -> list[str]:
  """Returns our engines, of which OpenVINO is optional."""
  return [engine for engine in ENGINES if importlib.util.find_spec(engine)]


def matrix_rate() -> float:
  """Returns the floating-point operations per second of a large float32 `tf.matmul` on all cores."""
  size = _GPU_MATRIX if tf.config.list_logical_devices("GPU") else _MATRIX
  matrix = tf.random.stateless_normal([size, size], [0, 0])
  multiply = tf.function(lambda x: tf.reduce_sum(tf.matmul(x, matrix)), autograph=False)
  multiply(matrix).numpy()
  seconds, _ = measure.seconds(lambda: [multiply(matrix).numpy() for _ in range(5)])
  return 5 * 2.0 * size**3 / seconds


def write_random_encoder(folder: pathlib.Path, tokenizer_folder: str, shape: str = BERT) -> None:
  """Writes a Hugging Face folder of a shape that both TensorFlow and PyTorch load."""
  model_type = BERT if shape in (MINILM, LARGE) else shape
  files = EncoderFiles(pathlib.Path(tokenizer_folder))
  tokenizer = load_tokenizer(files)
  if model_type != BERT:  # which reads tokenizer.json alone
    tokenizer = FolderTokenizer(tokenizer.backend, tokenizer.specials, tokenizer.vocab_file)
  ids = dict(zip(("cls_token_id", "sep_token_id", "pad_token_id"), tokenizer.special_ids, strict=False))
  sizes = {"vocab_size": tokenizer.vocab_size, **ids, **SHAPES[shape]}
  config = EncoderConfig({"model_type": model_type, **sizes})
  save_encoder(SentenceEncoder(LoadedModel(random_transformer(config), "random", files), tokenizer), folder)


def flops_per_token(config: Any, length: int) -> int:
  """Returns the floating-point operations per token of a sentence of `length` tokens.

  Only matrix products count, an addition and a multiplication each: four of width x width, two of width x inner (three
  with GeGLU), and the two of attention, whose cost grows with the sentence, up to the window in local attention.
  """
  width, inner, blocks = config.hidden_size, config.intermediate_size, config.num_hidden_layers
  if config.model_type == BERT:
    return blocks * (8 * width * width + 4 * width * inner + 4 * width * length)
  near = min(length, config.local_attention)
  attended = len(config.global_blocks) * length + (blocks - len(config.global_blocks)) * near
  return blocks * (8 * width * width + 6 * width * inner) + 4 * width * attended


def run(benchmark: Any) -> tuple[dict[str, Any], str]:
  """Measures our encoder and the others in turns; returns JSON values and Markdown."""
  settings, embedding = benchmark.settings, benchmark.embedding
  # Not of the encoder of the flags, whose tokenizer alone is used.
  length = embedding.max_seq_length or benchmark.pooling_arguments["max_seq_length"]
  batch_size = embedding.predict_batch_size
  sentences = benchmark.sentences(settings.tasks[0])
  if settings.encoder_sentences < len(sentences):
    drawn = np.random.default_rng(0).choice(len(sentences), settings.encoder_sentences, replace=False)
    sentences = [sentences[i] for i in drawn]
  joined = settings.joined_sentences
  sentences = [" ".join(sentences[start : start + joined]) for start in range(0, len(sentences), joined)]
  arguments = {"sentence_embedding_type": "avg", "max_seq_length": length, "batch_size": batch_size}
  arguments["show_progress"] = False
  versions, skipped, embeddings, methods = {}, {}, {}, {MATRIX_RATE: matrix_rate}

  def add(name, version, embed):
    def timed():
      cost, embeddings[name] = embed()
      logging.info("%s: %.1f sentences/s", name, len(sentences) / cost["seconds"])
      return cost

    methods[name], versions[name] = timed, version

  def add_ours(folder, precision, engine):
    encoder = SentenceEncoder.from_pretrained(str(folder), precision=precision, engine=engine)
    encode = functools.partial(encoder.encode, **arguments)
    encode(sentences[:_WARM_UP])
    encode(sentences[:1])

    def embed():
      cost, rows = measure.cost(lambda: encode(sentences))
      cost["single_seconds"] = single_seconds(encode, sentences[:_SINGLE])
      return cost, rows

    name = _name(OURS, precision)
    if engine == OPENVINO:
      name = _name(f"{OURS}, engine {engine}", precision)
    add(name, f"{engine} {importlib.metadata.version(engine)}", embed)
    return encoder

  with tempfile.TemporaryDirectory(prefix="bert_flow_benchmark_") as parent:
    folder = pathlib.Path(parent) / "random"
    write_random_encoder(folder, benchmark.encoder.folder, settings.architecture)
    with measure.Worker(benchmark.other_python, folder, sentences, length) as worker:
      precisions = list(dict.fromkeys([FLOAT32, embedding.precision]))
      if embedding.precision == INT8:
        precisions.insert(1, _BFLOAT16)
      for engine in _engines():
        for precision in precisions:
          encoder = add_ours(folder, precision, engine)
      for engine in itertools.chain.from_iterable(OTHERS[precision] for precision in precisions if precision in OTHERS):
        answer = worker.ask(engine, batch_size)  # loads and exports
        if "skipped" in answer:
          skipped[engine] = answer["skipped"]
          logging.warning("%s is skipped: %s", engine, answer["skipped"])
          continue

        def of_worker(engine=engine):
          answer = worker.ask(engine, batch_size, folder / "other.npy", _SINGLE)
          return answer, np.load(folder / "other.npy")

        add(engine, answer["version"], of_worker)
      rounds = measure.in_turns(methods, settings.repeats)
  result = {"batch_size": batch_size, "versions": versions, "skipped": skipped}
  lengths = [len(ids) for ids in encoder.tokenizer(sentences, length)]
  result |= _summary(rounds, embeddings, lengths, encoder.bert.config)
  return result, to_markdown(result)


def _summary(
  rounds: dict[str, Any], embeddings: dict[str, np.ndarray], lengths: list[int], config: Any
) -> dict[str, Any]:
  """Returns what follows from the costs of the rounds and the sentences' lengths in tokens, as JSON values."""
  flops = sum(number * flops_per_token(config, number) for number in lengths)
  rates, count = rounds.pop(MATRIX_RATE), len(lengths)
  seconds, cpu_seconds, peak_bytes, single = (
    {name: [cost[key] for cost in costs] for name, costs in rounds.items()}
    for key in ("seconds", "cpu_seconds", "peak_bytes", "single_seconds")
  )
  shares = [flops / wall / rate for wall, rate in zip(seconds[OURS], rates, strict=True)]
  return {
    "sentences": count,
    "mean_tokens": float(np.mean(lengths)),
    "threads": usable_cpus(),
    "seconds": seconds,
    "cpu_seconds_per_sentence": {name: measure.median(costs) / count for name, costs in cpu_seconds.items()},
    "peak_bytes": {name: max(costs) for name, costs in peak_bytes.items()},
    "sentences_per_second": {name: count / measure.median(costs) for name, costs in seconds.items()},
    "ours_over": {name: measure.median_ratio(costs, seconds[OURS]) for name, costs in seconds.items()},
    "single_milliseconds": {name: 1000 * measure.median(costs) for name, costs in single.items()},
    "largest_difference": {name: float(np.abs(rows - embeddings[OURS]).max()) for name, rows in embeddings.items()},
    "flops_per_sentence": flops / count,
    "matrix_flops_per_second": measure.median(rates),
    "share_of_matrix_rate": measure.median(shares),
  }


def to_markdown(result: dict[str, Any]) -> str:
  """Returns the table of the result of `run`."""
  rows = []
  for name, rate in result["sentences_per_second"].items():
    ratio, difference = result["ours_over"][name], result["largest_difference"][name]
    cpu, memory = result["cpu_seconds_per_sentence"][name], result["peak_bytes"][name] / 1e9
    version = f"{name} ({result['versions'][name]})"
    single = result["single_milliseconds"][name]
    cells = [f"{rate:.4g}", f"{ratio:.2f}", f"{single:.3g}", f"{cpu:.3g}", f"{memory:.2f}", f"{difference:.1e}"]
    rows.append([version, *cells])
  header = [
    "",
    "sentences/s",
    "ours / this",
    "ms, one sentence",
    "CPU s per sentence",
    "peak memory of the process, GB",
    "largest difference",
  ]
  lines = [measure.markdown_table(header, rows), ""]
  lines += [f"{engine} is skipped: {reason}\n" for engine, reason in result["skipped"].items()]
  matrix, flops = result["matrix_flops_per_second"], result["flops_per_sentence"]
  lines.append(
    f"{result['sentences']} distinct sentences, {result['mean_tokens']:.1f} tokens on average, batches of "
    f"{result['batch_size']}, {result['threads']} threads. {flops / 1e9:.3g} GFLOP per sentence (without padding). A "
    f"matrix product runs at {matrix / 1e9:.0f} GFLOP/s here, so the limit is {matrix / flops:.1f} sentences/s; "
    f"ours reaches {100 * result['share_of_matrix_rate']:.0f}% of it (median over the rounds)."
  )
  return "\n".join(lines)
