"""sentence-transformers and ONNX Runtime for `run_benchmark.py --benchmark=encoder`, in a process of their own.

Started with any Python that has them (`--other_python`), with this file's path: it imports nothing of the project. It
reads one command a line from its standard input, {"engine": ..., "batch_size": ..., "save": file or null}, and answers
each with one line of json: {"seconds": ...} or {"skipped": why}.

Arguments: folder of a Hugging Face BERT, json file with a list of sentences, most tokens of a sentence, threads.
"""

import json
import pathlib
import sys
import time

import numpy as np

INSTALL = "pip install torch sentence-transformers onnxruntime onnx onnxscript"


class SentenceTransformers:
  """sentence-transformers on PyTorch; it sorts by length itself."""

  def __init__(self, folder, max_seq_length, threads):
    import sentence_transformers
    import torch
    from sentence_transformers import models

    torch.set_num_threads(threads)
    self.version = f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}"
    transformer = models.Transformer(folder, max_seq_length=max_seq_length)
    self.model = sentence_transformers.SentenceTransformer(
      modules=[transformer, models.Pooling(transformer.get_word_embedding_dimension(), "mean")], device="cpu"
    )

  def encode(self, sentences, batch_size):
    """float32 [n, dim]."""
    return self.model.encode(sentences, batch_size=batch_size, convert_to_numpy=True, show_progress_bar=False)


class OnnxRuntime:
  """The same model exported to ONNX with its pooling, in ONNX Runtime with all its graph optimizations."""

  def __init__(self, folder, max_seq_length, threads):
    import onnxruntime
    import torch
    import transformers

    self.version = f"onnxruntime {onnxruntime.__version__}"
    self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    self.max_seq_length = max_seq_length
    file = pathlib.Path(folder) / "model.onnx"
    if not file.exists():
      _export(torch, transformers, folder, file)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    self.session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

  def encode(self, sentences, batch_size):
    """float32 [n, dim]."""
    ids = self.tokenizer(sentences, truncation=True, max_length=self.max_seq_length)["input_ids"]
    order = np.argsort([-len(row) for row in ids], kind="stable")
    found = None
    for start in range(0, len(ids), batch_size):
      chosen = order[start : start + batch_size]
      longest = len(ids[chosen[0]])
      padded = np.array([ids[i] + [self.tokenizer.pad_token_id] * (longest - len(ids[i])) for i in chosen], np.int64)
      mask = (np.arange(longest) < np.array([[len(ids[i])] for i in chosen])).astype(np.int64)
      (rows,) = self.session.run(None, {"ids": padded, "mask": mask})
      found = np.empty([len(ids), rows.shape[1]], np.float32) if found is None else found
      found[chosen] = rows
    return found


def _export(torch, transformers, folder, file):
  """Writes model.onnx: ids and mask, int64 [batch, seq_len] -> mean over the tokens, float32 [batch, dim]."""

  class Mean(torch.nn.Module):
    def __init__(self):
      super().__init__()
      self.bert = transformers.BertModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="eager")

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


ENGINES = {"sentence-transformers": SentenceTransformers, "ONNX Runtime": OnnxRuntime}


def main(folder, sentences_file, max_seq_length, threads):
  """Answers commands until the input ends."""
  answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not come between the answers
  sentences = json.loads(pathlib.Path(sentences_file).read_text(encoding="utf-8"))
  engines = {}
  for line in sys.stdin:
    command = json.loads(line)
    name = command["engine"]
    try:
      if name not in engines:
        engines[name] = ENGINES[name](folder, int(max_seq_length), int(threads))
      start = time.perf_counter()
      found = engines[name].encode(sentences, command["batch_size"])
      answer = {"seconds": time.perf_counter() - start, "version": engines[name].version}
      if command.get("save"):
        np.save(command["save"], found)
    except ImportError as error:
      answer = {"skipped": f"{error}; to measure it: {INSTALL}"}
    except Exception as error:  # the export and the two libraries raise whatever they like
      answer = {"skipped": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
  main(*sys.argv[1:])
