"""examples/spark_embed.py on a standalone cluster of Spark: a master and two workers on loopback."""

import collections
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from bert_flow_tf import SentenceModel, load_task
from tests.testing import REPO, run_python
from tools.soak.machines import descendants

pyspark = pytest.importorskip("pyspark", reason="needs Spark: pip install pyspark 'pandas<3' pyarrow")
pytest.importorskip("pandas", reason="needs pandas, for Spark's functions in Python: pip install 'pandas<3'")
parquet = pytest.importorskip("pyarrow.parquet", reason="needs Parquet: pip install pyarrow")
pyarrow = pytest.importorskip("pyarrow")

pytestmark = [
  pytest.mark.slow,
  pytest.mark.skipif(shutil.which("java") is None, reason="needs Java 17: apt-get install default-jre-headless"),
]

SPARK = pathlib.Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
FILES, ROWS = 6, 150
# An executor of two cores for each worker, which runs one task at a time; both have registered before the first task.
# A busy machine loses no executor by its heartbeats. The log of events is text.
OPTIONS = {
  "spark.task.cpus": "2",
  "spark.executor.memory": "512m",
  "spark.scheduler.minRegisteredResourcesRatio": "1",
  "spark.scheduler.maxRegisteredResourcesWaitingTime": "1h",
  "spark.cores.max": "4",
  "spark.network.timeout": "10h",
  "spark.eventLog.enabled": "true",
  "spark.eventLog.compress": "false",
  "spark.eventLog.rolling.enabled": "false",
  "spark.ui.enabled": "false",
}


def wait_for(condition, process):
  """Waits until `condition()` is true; an error if the process ends before."""
  while not condition():
    assert process.poll() is None, f"{process.args} ended too early"
    time.sleep(0.1)


class Cluster:
  """Processes of Spark, whose output is in files of a folder."""

  def __init__(self, folder):
    self._folder = folder
    self._processes = []
    self._environment = {**os.environ, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": LOOPBACK, "PYTHONPATH": str(REPO)}
    self._environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "256m", "TF_CPP_MIN_LOG_LEVEL": "3"}
    self._environment["SPARK_DAEMON_JAVA_OPTS"] = "-Dspark.worker.timeout=36000"

  def start(self):
    """Starts the master and two workers of two cores; returns the master's URL and the workers."""
    url = self._serve("Master", "master", ["--port", "0"], "Starting Spark master at ")
    options = ["--cores", "2", "--memory", "1g", "--work-dir", str(self._folder / "work"), url]
    for name in ("worker 1", "worker 2"):
      self._serve("Worker", name, options, "Successfully registered with master ")
    return url, self._processes[1:]

  def _serve(self, kind, name, arguments, text):
    """Starts a server and waits for a line of its output; returns the word after `text`."""
    main_class = f"org.apache.spark.deploy.{kind.lower()}.{kind}"
    process = self._run(name, "spark-class", main_class, "--host", LOOPBACK, "--webui-port", "0", *arguments)
    wait_for(lambda: f"{text}spark://" in self.output(name).rpartition("\n")[0], process)
    return self.output(name).partition(text)[2].split()[0]

  def submit(self, name, master, options, *arguments):
    """Starts the example; returns the process."""
    settings = []
    for option, value in options.items():
      settings += ["--conf", f"{option}={value}"]
    example = str(REPO / "examples/spark_embed.py")
    return self._run(name, "spark-submit", f"--master={master}", *settings, example, *map(str, arguments))

  def _run(self, name, program, *arguments):
    with open(self._folder / name, "w") as output:
      streams = {"stdout": output, "stderr": subprocess.STDOUT}
      process = subprocess.Popen(
        [SPARK / "bin" / program, *arguments], env=self._environment, cwd=self._folder, **streams
      )
    self._processes.append(process)
    return process

  def output(self, name):
    """Returns what a process has printed."""
    return (self._folder / name).read_text()

  def close(self):
    """Kills all processes that run."""
    for process in self._processes:
      started = descendants(process)
      process.kill()
      process.wait()
      send(signal.SIGKILL, started)


def send(number, pids):
  """Sends a signal to those processes that run."""
  for pid in pids:
    with contextlib.suppress(ProcessLookupError):
      os.kill(pid, number)


@pytest.fixture
def cluster(tmp_path):
  with contextlib.closing(Cluster(tmp_path)) as cluster:
    yield cluster


def write_corpus(folder):
  """Writes files of sentences with ids; in the first file, three sentences are empty."""
  sentences = list(dict.fromkeys(load_task("sample").splits["train"].sentences_a))
  folder.mkdir()
  for number in range(FILES):
    texts = [f"{number}: {sentences[row % len(sentences)]}" for row in range(ROWS)]
    if number == 0:
      texts[3:6] = ["", None, " \u2003\t"]
    ids = [f"{number}-{row}" for row in range(ROWS)]
    parquet.write_table(pyarrow.table({"id": ids, "sentence": texts}), folder / f"{number}.parquet")
  return sentences


def read_vectors(folder):
  """Returns {id: embedding} of Parquet files."""
  rows = [row for path in sorted(folder.glob("*.parquet")) for row in parquet.read_table(path).to_pylist()]
  vectors = {row["id"]: np.array(row["embedding"], np.float32) for row in rows}
  assert len(vectors) == len(rows) == FILES * ROWS - 3
  return vectors


def ends_of_tasks(path):
  """Returns {file's number: how its tasks ended} of the job that embedded, from Spark's log of events."""
  events = map(json.loads, path.read_text().splitlines())
  tasks = [event for event in events if event["Event"] == "SparkListenerTaskEnd"]
  last = max(event["Stage ID"] for event in tasks)
  ends = collections.defaultdict(list)
  for event in tasks:
    if event["Stage ID"] == last:
      ends[event["Task Info"]["Index"]].append(event["Task End Reason"]["Reason"])
  return ends


def test_killed_executor_costs_one_task_and_the_vectors_are_those_of_embed(cluster, tmp_path):
  sentences = write_corpus(tmp_path / "corpus")
  model, output, events = tmp_path / "model", tmp_path / "vectors", tmp_path / "events"
  SentenceModel.from_pretrained("mini").fit(sentences, "whitening-64").save(model)
  events.mkdir()
  master, workers = cluster.start()
  options = {**OPTIONS, "spark.eventLog.dir": events.as_uri()}
  paths = [f"--model={model}", f"--input={tmp_path / 'corpus'}", f"--output={output}"]
  job = cluster.submit("job", master, options, *paths)

  # The Python processes of an executor halt at any point of a task. The other executor embeds all other files.
  def finished():
    return len(list(output.glob("_temporary/0/task_*")))

  wait_for(lambda: finished() and len(descendants(workers[0])) >= 3, job)
  executor, *python = descendants(workers[0])
  send(signal.SIGSTOP, python)
  wait_for(lambda: finished() == FILES - 1, job)
  send(signal.SIGKILL, [executor, *python])
  assert job.wait() == 0, cluster.output("job")
  assert f"{output}: embeddings of 64 dimensions by mini+whitening-64" in cluster.output("job")

  ends = sorted(ends_of_tasks(next(events.iterdir())).values())
  assert ends == [["ExecutorLostFailure", "Success"], *[["Success"]] * (FILES - 1)]
  # Each worker has loaded the model once, for the cores of a task.
  logs = [path.read_text() for path in (tmp_path / "work").glob("app-*/*/stderr")]
  loads = [log.count(f"loading {model} for 2 threads") for log in logs]
  assert max(loads) == 1
  command = ["embed", f"--input={tmp_path / 'corpus/*'}", f"--flow_folder={model}", f"--output={tmp_path / 'expected'}"]
  run_python(REPO / "run_scripts/bert_flow.py", *command, "--id_column=id", "--output_format=parquet")
  expected, found = read_vectors(tmp_path / "expected"), read_vectors(output)
  assert found.keys() == expected.keys()
  for name in expected:
    np.testing.assert_allclose(found[name], expected[name], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
  ("wrong", "message"),
  [
    ("--column=text", "[UNRESOLVED_COLUMN"),
    ("--input=nowhere", "[PATH_NOT_FOUND] Path does not exist"),
    ("--model=nowhere", "folder: "),
    ("--output=corpus", "[PATH_ALREADY_EXISTS]"),
  ],
)
def test_wrong_arguments_are_one_sentence(cluster, tmp_path, wrong, message):
  write_corpus(tmp_path / "corpus")
  SentenceModel.from_pretrained("static:mini").save(tmp_path / "model")
  paths = ["--model=model", "--input=corpus", "--output=vectors"]
  job = cluster.submit("job", "local[1]", {"spark.ui.enabled": "false"}, *paths, wrong)
  assert job.wait() == 1
  output = cluster.output("job")
  # Spark's log may repeat the message.
  assert [line[: len(message)] for line in output.splitlines()].count(message) == 1 and "Traceback" not in output
