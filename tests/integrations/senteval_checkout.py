"""A checkout of SentEval: its interface and the layout of its data, as its README describes them."""

PACKAGE = """
import os
import numpy as np
from scipy.stats import pearsonr, spearmanr

class SE:
  def __init__(self, params, batcher, prepare=None):
    self.params, self.batcher, self.prepare = params, batcher, prepare
    self.list_tasks = ["STS12", "STS14", "STSBenchmark", "SICKRelatedness", "MRPC", "SST2", "Broken"]

  def eval(self, name):
    folder = os.path.join(self.params["task_path"], "downstream", "STS", f"{name}-en-test")
    if name == "STSBenchmark":
      return {"devpearson": 0.5, "pearson": 0.25, "spearman": np.float64(0.5), "mse": 1.0, "ndev": 3, "ntest": 4}
    if name == "MRPC":
      return {"devacc": 71.0, "acc": 72.5, "f1": 81.0, "ndev": 3, "ntest": 9}
    if name == "SICKRelatedness":
      part = {"pearson": (0.5, 0.0), "spearman": (0.75, 0.0), "nsamples": 7}
      return {"train": part, "dev": part, "test": part, "all": {"pearson": {}, "spearman": {}}}
    if name == "SST2":
      assert False, "torch.cuda required for Relatedness"
    if name == "Broken":
      return {"nothing": 1}
    found, data = {}, {}
    for part in sorted(file[10:-4] for file in os.listdir(folder) if "input" in file):
      with open(os.path.join(folder, f"STS.input.{part}.txt")) as file:
        pairs = [line.rstrip("\\n").split("\\t") for line in file]
      with open(os.path.join(folder, f"STS.gs.{part}.txt")) as file:
        gold = file.read().split("\\n")
      kept = [i for i, score in enumerate(gold) if score and i < len(pairs)]
      sides = [np.array([pairs[i][side].split() for i in kept], dtype=object) for side in (0, 1)]
      data[part] = (sides, [float(gold[i]) for i in kept])
    self.prepare(self.params, [s for sides, _ in data.values() for side in sides for s in side])
    for part, (sides, gold) in data.items():
      size, cosines = self.params["batch_size"], []
      for start in range(0, len(gold), size):
        a, b = (self.batcher(self.params, side[start:start + size]) for side in sides)
        cosines += [u @ v / np.linalg.norm(u) / np.linalg.norm(v) for u, v in zip(a, b)]
      found[part] = {"pearson": pearsonr(cosines, gold), "spearman": spearmanr(cosines, gold), "nsamples": len(gold)}
    means = {
      key: {"mean": np.mean([p[key][0] for p in found.values()]),
            "wmean": np.average([p[key][0] for p in found.values()], weights=[p["nsamples"] for p in found.values()])}
      for key in ("pearson", "spearman")
    }
    return {**found, "all": means}
"""


def write(folder, data):
  """Writes a checkout whose data/downstream is the folder `data`; returns its folder."""
  (folder / "senteval").mkdir(parents=True)
  (folder / "senteval/__init__.py").write_text("")
  (folder / "senteval/engine.py").write_text(PACKAGE)
  (folder / "data").mkdir()
  (folder / "data/downstream").symlink_to(data)
  return folder
