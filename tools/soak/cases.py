"""Small but real commands of the runners, for the programs of this folder."""

import dataclasses
import pathlib
import random

import numpy as np

from tests.run_scripts import run_siamese_test, tiny_data
from tests.training.siamese import small_siamese

# Flags of a flow that is fitted in many short steps.
_FLOW = ["--train_batch_size=8", "--save_checkpoints_steps=3"]


@dataclasses.dataclass(frozen=True)
class Case:
  """Command of a runner."""

  module: str
  flags: list[str]
  spoiled: tuple[str, ...] = ()


def prepare(folder: pathlib.Path) -> None:
  """Writes an encoder, text, pairs and vectors."""
  run_siamese_test.prepare(folder)
  small_siamese.save(folder / "model", blocks=2)
  a, b, labels = small_siamese.pairs(160, seed=7)
  (folder / "pairs.tsv").write_text("".join(f"{4 * x}\t{y}\t{z}\n" for y, z, x in zip(a, b, labels, strict=True)))
  words = random.Random(1)
  lines = (" ".join(words.choices(small_siamese.WORDS, k=words.randint(1, 9))) for _ in range(3000))
  (folder / "lines.txt").write_text("".join(f"{line}\n" for line in lines))
  (folder / "text.txt").write_text("".join(f"{a}\n{b}\n" for a, b in tiny_data.sentences()))
  (folder / "many").mkdir()
  rng = np.random.default_rng(2)
  for number in range(40):
    np.save(folder / f"many/{number:02}.npy", rng.normal(size=[200, 12]).astype(np.float32))
    (folder / f"many/{number:02}.ids.txt").write_text("".join(f"{number}-{row}\n" for row in range(200)))


def cases(inputs: pathlib.Path, out: pathlib.Path) -> dict[str, Case]:
  """Returns the commands by name; those after the first use its calibration."""
  model, small = [f"--model={inputs}/model", "--max_seq_length=16"], f"--flow_model_config={inputs}/small.json"
  task = ["--task=custom", f"--data_dir={inputs}/pairs.tsv", f"--output_parent_dir={out}", "--exp_name=e"]
  joint = ["--flow=1", "--flow_loss=1", "--num_examples=30", "--num_train_epochs=2", "--early_stopping", "--low_dim=4"]
  stsb = ["--task=STS-B", f"--data_dir={inputs}/data"]
  fitted = inputs / "flow"
  return {
    "run_flow": Case(
      "run_flow",
      [*model, *task, *_FLOW, small, "--num_train_epochs=2", "--calibration=flow,whitening-4", f"--cached_dir={out}/c"],
      ("c/*/*.npy", "e/checkpoints/ckpt-*", "e/flow/*", "e/results.json"),
    ),
    "run_siamese": Case(
      "run_siamese",
      [*model, *stsb, *joint, small, *_FLOW, "--do_train", "--do_eval", "--do_predict", f"--output_parent_dir={out}"],
      ("*/checkpoints/ckpt-*", "*/model.ckpt-*", "*/encoder/*"),
    ),
    "run_embed": Case(
      "run_embed",
      [f"--flow_folder={fitted}", f"--input={inputs}/lines.txt", "--shard_size=100", f"--output_dir={out}/vectors"],
      ("vectors/shard-*",),
    ),
    "run_export": Case("run_export", [f"--flow_folder={fitted}", f"--export_dir={out}/served"]),
    "run_table": Case(
      "run_table",
      [
        *(*model, *stsb, small, "--train_batch_size=8", "--table=2", "--num_seeds=2", "--calibration=whitening-4,sn"),
        "--num_train_epochs=1",
        f"--output_dir={out}/tables",
      ],
      ("tables/cells/*", "tables/embeddings/*.sqlite", "tables/table_2.*"),
    ),
    "run_calibrate": Case(
      "run_calibrate",
      [
        *(f"--vectors={inputs}/many", "--calibration=flow", small, *_FLOW, "--num_train_epochs=0.2"),
        f"--output={out}/flow",
      ],
      ("flow.fit/checkpoints/ckpt-*",),
    ),
    "run_calibrate_apply": Case(
      "run_calibrate", [f"--vectors={inputs}/many", f"--calibration_folder={fitted}", f"--output={out}/applied"]
    ),
  }
