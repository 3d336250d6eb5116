"""Process that measures other programs for `benchmarks/run.py`, parts encoder, static and duplicates.

Started by the path of this file with any Python that has them (argument `other_python`); it imports nothing of this
package. It reads one command per line of its standard input, {"engine": ..., "batch_size": ..., "save": file or null,
"single": number of sentences}, and answers each with one line of JSON: {"seconds": ..., "cpu_seconds": ...,
"peak_bytes": ..., "single_seconds": ..., "version": ...} or {"skipped": reason}. `single_seconds`: the median for one
sentence at a time.

Arguments: folder of a Hugging Face BERT, for model2vec of rows.npy and tokenizer.json, or for semhash of vectors.npy,
with sentences.json, a list; max_seq_length; number of threads.
"""

import contextlib
import functools
import json
import pathlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

INSTALL = (
  "pip install torch sentence-transformers onnxruntime onnx onnxscript; for int8: openvino nncf; for static encoders: "
  "model2vec; for duplicates: semhash"
)
# Sentences by which OpenVINO's quantization finds the ranges of activations.
_CALIBRATION_SENTENCES = 96


class SentenceTransformers:
  """sentence-transformers on PyTorch, which sorts by length itself."""

  def __init__(self, folder: str, max_seq_length: int, threads: int) -> None:
    import sentence_transformers
    import torch
    from sentence_transformers import models

    torch.set_num_threads(threads)
    self.version = f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}"
    transformer = models.Transformer(folder, max_seq_length=max_seq_length)
    self.model = sentence_transformers.SentenceTransformer(
      modules=[transformer, models.Pooling(transformer.get_word_embedding_dimension(), "mean")], device="cpu"
    )

  def encode(self, sentences: list[str], batch_size: int) -> np.ndarray:
    """Returns embeddings, float32 [n, dim]."""
    return self.model.encode(sentences, batch_size=batch_size, convert_to_numpy=True, show_progress_bar=False)


class OnnxRuntime:
  """The same model and pooling exported to ONNX, in ONNX Runtime with all its graph optimizations."""

  def __init__(self, folder: str, max_seq_length: int, threads: int) -> None:
    import onnxruntime
    import torch
    import transformers

    self.version = f"onnxruntime {onnxruntime.__version__}"
    self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    self.max_seq_length = max_seq_length
    file = self.file(_exported(torch, transformers, folder))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    self.session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

  def file(self, exported: pathlib.Path) -> pathlib.Path:
    """Returns the ONNX file that is computed, made of the exported one."""
    return exported

  def compute(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """ids and mask int64 [batch, seq_len] -> embeddings float32 [batch, dim]."""
    return self.session.run(None, {"ids": ids, "mask": mask})[0]

  def encode(self, sentences: list[str], batch_size: int) -> np.ndarray:
    """Returns embeddings, float32 [n, dim]; long sentences are embedded first."""
    ids = self.tokenizer(sentences, truncation=True, max_length=self.max_seq_length)["input_ids"]
    order = np.argsort([-len(row) for row in ids], kind="stable")
    embeddings: Any = None
    for start in range(0, len(ids), batch_size):
      batch = order[start : start + batch_size]
      longest = len(ids[batch[0]])
      padded = np.array([ids[i] + [self.tokenizer.pad_token_id] * (longest - len(ids[i])) for i in batch], np.int64)
      mask = (np.arange(longest) < np.array([[len(ids[i])] for i in batch])).astype(np.int64)
      rows = self.compute(padded, mask)
      embeddings = np.empty([len(ids), rows.shape[1]], np.float32) if embeddings is None else embeddings
      embeddings[batch] = rows
    return embeddings


class OnnxRuntimeInt8(OnnxRuntime):
  """ONNX Runtime with kernels of 8 bits per channel, and activations of 8 bits with a range for a whole batch."""

  def file(self, exported: pathlib.Path) -> pathlib.Path:
    """Quantizes the exported file."""
    from onnxruntime import quantization

    quantized = exported.with_name("int8.onnx")
    weights = quantization.QuantType.QInt8
    quantization.quantize_dynamic(str(exported), str(quantized), per_channel=True, weight_type=weights)
    return quantized


class OpenVino(OnnxRuntime):
  """The ONNX model in OpenVINO, in float32."""

  precision = "f32"

  def __init__(self, folder: str, max_seq_length: int, threads: int) -> None:
    import openvino
    import torch
    import transformers

    self.version = f"openvino {openvino.__version__.split('-')[0]}"
    self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    self.max_seq_length = max_seq_length
    core = openvino.Core()
    model = self.converted(core.read_model(_exported(torch, transformers, folder)), folder)
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    self.model = core.compile_model(model, "CPU", options | {"INFERENCE_PRECISION_HINT": self.precision})

  def converted(self, model: Any, folder: str) -> Any:
    """Returns the model that is computed, made of the exported one."""
    return model

  def compute(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """ids and mask int64 [batch, seq_len] -> embeddings float32 [batch, dim]."""
    return self.model({"ids": ids, "mask": mask})[0]


class OpenVinoBfloat16(OpenVino):
  """OpenVINO in bfloat16."""

  precision = "bf16"


class OpenVinoInt8(OpenVino):
  """OpenVINO with kernels and activations of 8 bits, whose ranges are found by sentences."""

  def converted(self, model: Any, folder: str) -> Any:
    """Returns the quantized model."""
    import nncf

    self.version += f", nncf {nncf.__version__}"
    sentences = json.loads(pathlib.Path(folder, "sentences.json").read_text(encoding="utf-8"))
    examples = []
    for sentence in sentences[:_CALIBRATION_SENTENCES]:
      ids = self.tokenizer(sentence, truncation=True, max_length=self.max_seq_length)["input_ids"]
      examples.append({"ids": np.array([ids], np.int64), "mask": np.ones([1, len(ids)], np.int64)})
    options = {"model_type": nncf.ModelType.TRANSFORMER, "subset_size": _CALIBRATION_SENTENCES}
    return nncf.quantize(model, nncf.Dataset(examples), **options)


class Model2Vec:
  """model2vec's static model with rows of its own kind: mean of the rows of a sentence's word pieces."""

  def __init__(self, folder: str, max_seq_length: int, threads: int) -> None:
    del threads  # model2vec takes all cores for more than 10,000 sentences
    import model2vec
    import tokenizers

    self.version = f"model2vec {model2vec.__version__}"
    rows, tokenizer = np.load(f"{folder}/rows.npy"), tokenizers.Tokenizer.from_file(f"{folder}/tokenizer.json")
    self.model = model2vec.StaticModel(rows, tokenizer, max_length=max_seq_length - 2)

  def encode(self, sentences: list[str], batch_size: int) -> np.ndarray:
    """Returns embeddings, float32 [n, dim]."""
    return self.model.encode(sentences, batch_size=batch_size)


class SemHash:
  """semhash with its defaults, on embeddings that are there."""

  def __init__(self, folder: str, max_seq_length: int, threads: int) -> None:
    del max_seq_length, threads
    import semhash
    import semhash.version

    self.version = f"semhash {semhash.version.__version__}"
    self.class_ = semhash.SemHash
    self.vectors = np.load(f"{folder}/vectors.npy")

  def encode(self, sentences: list[str], batch_size: int) -> np.ndarray:
    """Returns whether each sentence is kept, bool [n]; of the first few ones if `batch_size` is positive."""
    if batch_size:
      sentences = sentences[:100]
    positions = {sentence: row for row, sentence in reversed(list(enumerate(sentences)))}
    result = self.class_.from_records(sentences, model=_Vectors(self.vectors, positions)).self_deduplicate(0.9)
    is_kept = np.zeros(len(sentences), bool)
    is_kept[[positions[sentence] for sentence in result.selected]] = True
    return is_kept


class _Vectors:
  """Encoder of semhash's protocol whose vectors are there."""

  def __init__(self, vectors, positions):
    self._vectors, self._positions = vectors, positions

  def encode(self, inputs, **unused):
    """Returns the vectors of sentences, float32 [n, dim]."""
    return self._vectors[[self._positions[sentence] for sentence in inputs]]


def _exported(torch, transformers, folder):
  """Returns the path of the ONNX model of a folder, which is written if it is absent."""
  file = pathlib.Path(folder) / "model.onnx"
  if not file.exists():
    _export(torch, transformers, folder, file)
  return file


def _export(torch, transformers, folder, file):
  """Writes an ONNX model: ids and mask, int64 [batch, seq_len] -> mean over the tokens, float32 [batch, dim]."""

  class Mean(torch.nn.Module):
    def __init__(self):
      super().__init__()
      self.bert = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")

    def forward(self, ids, mask):
      states = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
      weights = mask[:, :, None].to(states.dtype)
      return (states * weights).sum(1) / weights.sum(1)

  example = torch.ones([2, 7], dtype=torch.int64)
  axes = {name: {0: "batch", 1: "seq_len"} for name in ("ids", "mask")} | {"embeddings": {0: "batch"}}
  torch.onnx.export(
    Mean().eval(),
    (example, example),
    str(file),
    input_names=["ids", "mask"],
    output_names=["embeddings"],
    dynamic_axes=axes,
    opset_version=17,
    dynamo=False,
  )


def single_seconds(encode: Callable, sentences: Sequence[str]) -> float:
  """Returns the median of the wall seconds of `encode([sentence])`; NaN without sentences."""
  seconds = []
  for sentence in sentences:
    start = time.perf_counter()
    encode([sentence])
    seconds.append(time.perf_counter() - start)
  return float(np.median(seconds)) if seconds else float("nan")


def reset_peak() -> None:
  """Lets Linux measure the peak resident memory of this process from now on."""
  with contextlib.suppress(OSError):  # another system
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> float:
  """Returns the peak resident memory of this process since `reset_peak`; NaN where the system is not Linux."""
  try:
    status = pathlib.Path("/proc/self/status").read_text()
  except OSError:
    return float("nan")
  return 1024.0 * int(status.split("VmHWM:")[1].split()[0])


ENGINES = {
  "sentence-transformers": SentenceTransformers,
  "ONNX Runtime": OnnxRuntime,
  "ONNX Runtime, int8": OnnxRuntimeInt8,
  "OpenVINO": OpenVino,
  "OpenVINO, bfloat16": OpenVinoBfloat16,
  "OpenVINO, int8": OpenVinoInt8,
  "model2vec": Model2Vec,
  "semhash": SemHash,
}


def main(folder: str, max_seq_length: str, threads: str) -> None:
  """Answers commands until the input ends."""
  answers, sys.stdout = sys.stdout, sys.stderr  # output of the libraries must not come between the answers
  sentences = json.loads(pathlib.Path(folder, "sentences.json").read_text(encoding="utf-8"))
  engines: dict[str, Any] = {}
  for line in sys.stdin:
    command = json.loads(line)
    name = command["engine"]
    try:
      if name not in engines:
        engines[name] = ENGINES[name](folder, int(max_seq_length), int(threads))
      reset_peak()
      start, cpu = time.perf_counter(), time.process_time()
      embeddings = engines[name].encode(sentences, command["batch_size"])
      answer = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
      answer["peak_bytes"] = peak_bytes()
      answer["version"] = engines[name].version
      encode = functools.partial(engines[name].encode, batch_size=1)
      answer["single_seconds"] = single_seconds(encode, sentences[: command.get("single", 0)])
      if command.get("save"):
        np.save(command["save"], embeddings)
    except ImportError as error:
      answer = {"skipped": f"{error}; to measure it: {INSTALL}"}
    except Exception as error:  # the export and the two libraries raise any class
      answer = {"skipped": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
  main(*sys.argv[1:])
