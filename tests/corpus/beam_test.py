"""The pipeline on Beam's direct runner writes the same files as a run without Beam."""

import dataclasses
import functools
import pathlib
import socket
import sys

import numpy as np
import pytest

from bert_flow_tf.corpus.embedding import pending, run_streaming
from bert_flow_tf.corpus.job import EmbeddingJob, JobSettings
from bert_flow_tf.data.files.input_format import InputFormat
from bert_flow_tf.errors import BertFlowError, ConfigError, DataError
from tests.corpus import toy
from tests.testing import rejected

pytest.importorskip("apache_beam", reason="the pipeline needs Apache Beam, the extra [beam], which is not installed")

from bert_flow_tf.corpus.beam import DIRECT, parse_options, reason_of, run_beam

FORMAT = InputFormat()


def contents(folder):
  return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.mark.slow
def test_beam_writes_the_files_of_a_run_without_it(tmp_path):
  """The pipeline has two workers; another run finished a shard before."""
  sentences = [f"sentence {i}" for i in range(3000)]
  sentences[77], sentences[1234] = "", "no vector"
  plan, folder = toy.corpus(tmp_path, sentences, shard_records=100)
  (tmp_path / "one_process").mkdir()
  expected = dataclasses.replace(folder, folder=str(tmp_path / "one_process"))
  run_streaming(plan, expected, FORMAT, toy.Model(), toy.SETTINGS)
  done = folder.name(4, "npy")
  for path in pathlib.Path(expected.folder).glob(done.replace(".npy", ".*")):
    pathlib.Path(folder.folder, path.name).write_bytes(path.read_bytes())
  before = pathlib.Path(folder.folder, done).stat().st_mtime_ns
  options = parse_options(DIRECT, ["direct_running_mode=multi_threading", "--direct_num_workers=2"])
  run_beam(plan, folder, FORMAT, toy.Model, toy.SETTINGS, options)
  assert contents(folder.folder) == contents(expected.folder)
  assert pathlib.Path(folder.folder, done).stat().st_mtime_ns == before
  ids, vectors = toy.read_npy(folder.folder)
  assert ids == [str(i) for i in range(1, 3001) if i not in (78, 1235)]
  np.testing.assert_array_equal(vectors, [toy.vector(sentences[int(name) - 1]) for name in ids])


@pytest.mark.slow
def test_an_error_of_ours_becomes_one_line(tmp_path, capfd):
  plan, folder = toy.corpus(tmp_path, ["one"] * 5)
  with pytest.raises(BertFlowError) as raised:
    run_beam(plan, folder, FORMAT, functools.partial(toy.Model, toy.reject), toy.SETTINGS, parse_options(DIRECT, []))
  assert "5 sentences: too odd" in str(raised.value) and raised.value.argument == "runner"
  assert len(pending(plan, folder)[0]) == 1
  assert capfd.readouterr().err == ""


def test_the_reason_in_a_traceback_of_a_worker():
  text = "\n".join(
    [
      "Traceback (most recent call last):",
      "bert_flow_tf.errors.DataError: a.txt: bad, expected good",
      "RuntimeError: bert_flow_tf.errors.DataError: a.txt: bad, expected good [while running 'Read-ptransform-9']",
      "",
    ]
  )
  assert reason_of(RuntimeError(text)) == "a.txt: bad, expected good"
  assert reason_of(RuntimeError("Traceback\nValueError: odd")) == "the pipeline failed (ValueError: odd)"
  assert reason_of(DataError("bad [while running 'Read']")) == "bad"


@pytest.mark.slow
def test_a_job_server_that_does_not_answer(tmp_path):
  plan, folder = toy.corpus(tmp_path, ["one"] * 5)
  with socket.create_server(("localhost", 0)) as server:  # accepts, and says nothing
    endpoint = f"job_endpoint=localhost:{server.getsockname()[1]}"
    options = ["environment_type=EXTERNAL", "environment_config=localhost:1", "job_server_timeout=2"]
    with pytest.raises(BertFlowError, match="job_endpoint") as raised:
      run_beam(plan, folder, FORMAT, toy.Model, toy.SETTINGS, parse_options("PortableRunner", [endpoint, *options]))
  assert raised.value.argument == "runner"


@pytest.mark.parametrize(
  ("runner", "options", "argument"),
  [
    ("TurtleRunner", [], "runner"),
    (DIRECT, ["direct_workers=2"], "beam_options"),
    (DIRECT, ["direct_num_workers=two"], "beam_options"),
    (DIRECT, ["runner=FlinkRunner"], "beam_options"),
  ],
)
def test_wrong_options(capfd, runner, options, argument):
  with rejected(ConfigError, argument):
    parse_options(runner, options)
  assert capfd.readouterr().err == ""


def test_a_runners_own_options_are_loaded_before_they_are_checked(tmp_path, monkeypatch):
  """Like Beam's DaskRunner, this one defines its options in its own module, under other names than it keeps them."""
  (tmp_path / "turtles.py").write_text(
    "from apache_beam.options.pipeline_options import PipelineOptions\n"
    "class TurtleOptions(PipelineOptions):\n"
    "  @classmethod\n"
    "  def _add_argparse_args(cls, parser):\n"
    "    parser.add_argument('--turtle_speed', dest='speed', type=int)\n"
    "class TurtleRunner: pass\n"
  )
  monkeypatch.syspath_prepend(tmp_path)
  portable = ["job_endpoint=a:8099", "environment_type=EXTERNAL", "environment_config=b:5000"]
  assert parse_options("PortableRunner", portable) == [f"--{option}" for option in [*portable, "runner=PortableRunner"]]
  runner = "turtles.TurtleRunner"
  assert parse_options(runner, ["turtle_speed=3"]) == ["--turtle_speed=3", f"--runner={runner}"]
  for wrong in ("turtle_speed=slow", "speed=3"):
    with rejected(ConfigError, "beam_options"):
      parse_options(runner, [wrong])


def test_packages_that_are_not_installed(tmp_path, monkeypatch):
  for name in [name for name in sys.modules if name.startswith("apache_beam.runners.dask.")]:
    monkeypatch.delitem(sys.modules, name)
  monkeypatch.setitem(sys.modules, "dask", None)
  with rejected(ConfigError, "runner", match="dask"):
    parse_options("DaskRunner", ["dask_client_address=tcp://a:8786"])
  monkeypatch.delitem(sys.modules, "bert_flow_tf.corpus.beam")
  monkeypatch.setitem(sys.modules, "apache_beam", None)
  with rejected(ConfigError, "runner", match=r"pip install 'bert-flow-tf\[beam"):
    EmbeddingJob(JobSettings(input=("a.txt",), output_dir=str(tmp_path), runner=DIRECT))
