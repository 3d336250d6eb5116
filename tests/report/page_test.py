"""report/page.py: what a run's page shows, and that it needs no other file."""

import html.parser
import re
import shutil
import subprocess

import numpy as np
import pytest
from matplotlib import image
from scipy import stats

from bert_flow_tf.data.pairs import SentencePairs
from bert_flow_tf.data.task import TaskData
from bert_flow_tf.data.tasks import KINDS, find_task
from bert_flow_tf.evaluation.metrics import cosine_similarity
from bert_flow_tf.evaluation.result import TaskResult
from bert_flow_tf.report import page, sentences
from bert_flow_tf.report.record import RunRecord, TaskRecord, task_record, write_record
from tests.report.records import BETTER, WORSE, record_of

HOSTILE = '<script>alert(1)</script> & "quoted" \ud800 #000000'
ABOUT = {
  "command": "python run.py --seed=1",
  "flags": {"task": "STS-B", "calibration": ["flow", "sn"], "seed": 1, "exp_name": None},
  "versions": {"numpy": "2"},
  "warnings": {"flow": ["the flow makes Spearman worse"]},
}
COUNT = 60


class Page(html.parser.HTMLParser):
  """Tags, attributes and tables of a page."""

  def __init__(self, text):
    super().__init__()
    self.tags, self.addresses, self.rows, self._cell = [], [], [], None
    self.feed(text)

  def handle_starttag(self, tag, attrs):
    self.tags.append(tag)
    self.addresses += [value for name, value in attrs if name in ("src", "href", "xlink:href")]
    if tag == "tr":
      self.rows.append([])
    self._cell = tag if tag in ("td", "th") else None

  def handle_data(self, data):
    if self._cell:
      self.rows[-1].append(data)
      self._cell = None


def task_of(gold):
  """A task of random vectors, in which the second method agrees better with gold than the first."""
  rng = np.random.default_rng(0)
  a = rng.normal(size=[COUNT, 5])
  near = a + rng.normal(size=[COUNT, 5]) * (1.2 - np.nan_to_num(gold)[:, None] / 5)
  first = (a + 20, near + 20 + rng.normal(size=[COUNT, 5]))
  sentences = [f"first {i} {HOSTILE}" for i in range(COUNT)], [f"second {i}" for i in range(COUNT)]
  pairs = SentencePairs(*sentences, gold)
  vectors = dict(zip([*sentences[0], *sentences[1]], np.concatenate(first), strict=True))
  transforms = {"without_flow": lambda u: u, "with_flow": lambda u: u - 20}
  cosines = {name: cosine_similarity(f(first[0]), f(first[1])) for name, f in transforms.items()}
  return pairs, vectors, transforms, cosines


def write(folder, gold, task="STS-B"):
  pairs, vectors, transforms, cosines = task_of(gold)
  task = TaskData(find_task(task), {"test": pairs}, "a file")
  scores = {"pairs": COUNT, "spearman": 1.25}
  if np.isnan(gold).all():
    scores["participation_ratio"] = 1.25
  evaluations = {name: ({"test": scores}, {"test": values}) for name, values in cosines.items()}
  encoders = {}
  for name, transform in transforms.items():
    encoders[name] = lambda texts, f=transform: f(np.array([vectors[text] for text in texts]))
  about = {**ABOUT, "task": task.name, "data": task.source}
  write_record(folder, RunRecord(f"a title {HOSTILE}", [task_record(task, evaluations, encoders)], about))
  return page.draw_page(folder).read_text(encoding="utf-8"), pairs, cosines


def text_of(*tasks, **about):
  """Returns the page of records of tasks."""
  return page.page_text(RunRecord("a title", tasks, about))


def test_page(tmp_path):
  gold = np.round(np.random.default_rng(1).uniform(0, 5, COUNT), 1)
  gold[3] = np.nan
  text, pairs, cosines = write(tmp_path, gold)
  found = Page(text)
  names = {"report.html", "results.json", "test_results.tsv", "drawings.npz"}
  assert {path.name for path in tmp_path.iterdir()} == names
  assert "script" not in found.tags and all(address.startswith("#") for address in found.addresses)
  assert not re.search(r"url\((?!#)|@import", text)
  assert found.tags.count("figure") == 3 and found.tags.count("svg") == 5 and ABOUT["warnings"]["flow"][0] in text
  assert found.rows[:5] == [
    ["x 100", "Spearman"],
    [f"test, {COUNT} pairs"],
    ["uncalibrated", "1.25"],
    ["flow", "1.25"],
    ["change", "+0.00"],
  ]
  # How often the cosines order two pairs as gold does, one by one.
  share = []
  for values in cosines.values():
    couples = [(i, j) for i in range(COUNT) for j in range(COUNT) if gold[i] > gold[j]]
    share.append(round(100 * np.mean([values[i] > values[j] for i, j in couples])))
  assert f"{share[0]} times before (uncalibrated), {share[1]} times after (flow);" in text
  assert "<pre>python run.py --seed=1</pre>" in text and "<details open" not in text
  # The ranks in the tables of pairs that moved, by SciPy.
  scored = ~np.isnan(gold)
  ranks = [100 * (stats.rankdata(values[scored]) - 1) / (scored.sum() - 1) for values in (gold, *cosines.values())]
  nearer = np.abs(ranks[1] - ranks[0]) - np.abs(ranks[2] - ranks[0])
  start = next(i for i, row in enumerate(found.rows) if row[0] == "pair")
  row = int(np.argmax(nearer))
  numbers = [f"{value[row]:.0f}" for value in ranks]
  assert found.rows[start + 1] == [
    f"{pairs.sentences_a[scored.nonzero()[0][row]]}\n{pairs.sentences_b[scored.nonzero()[0][row]]}".replace(
      "\ud800", "\\ud800"
    ),
    f"{gold[scored][row]:.4g}",
    *numbers,
  ]
  assert write(tmp_path, gold)[0] == text


@pytest.mark.parametrize(("gold", "drawings"), [(np.arange(COUNT) % 2.0, 3), (np.full(COUNT, np.nan), 2)])
def test_labels_and_no_gold(tmp_path, gold, drawings):
  text, *_ = write(tmp_path, gold, "MRPC" if drawings == 3 else "custom")
  assert Page(text).tags.count("figure") == drawings
  assert ("has no gold scores: the table says" in text) == (drawings == 2)


def test_warnings_are_shown_once():
  """Shows the result's warnings with their task, also where results.json names none."""
  record = record_of(*WORSE)
  ((harmful,),) = sentences.warnings(record.result).values()
  about = {"warnings": {"flow": ["no cone", harmful], "sn": ["no cone"]}}
  for found, expected in ((about, ["no cone", harmful]), ({}, [harmful])):
    assert re.findall('<p class="warning">(.*)</p>', text_of(record, **found)) == expected


def test_without_scores_and_with_one_method():
  """One method is neither before nor after; without scores there is no table."""
  assert Page(text_of(TaskRecord(TaskResult(find_task("STS-B"), "a file", {})))).rows == []
  text = text_of(record_of(BETTER[0]))
  assert re.search(r"Take two pairs .* order \d+ times \(uncalibrated\); by guessing", text)


def test_the_string_match_in_the_same_unit_and_what_it_means():
  text = text_of(record_of(*BETTER, matches={"tf-idf of word pieces": 0.5, "characters": 0.0}))
  assert "a string match without an encoder 100 times (characters);" in text
  assert "<p>the string match is better than the flow on test: " in text


def test_scores_of_a_classifier():
  scores = {"dev": {"accuracy": 75.0, "majority": 50.0, "loss": 0.5, "pairs": 4, "counts": {"yes": 2, "no": 2}}}
  result = TaskResult(find_task("SNLI", KINDS), "a file", scores)
  rows = Page(text_of(TaskRecord(result))).rows
  assert rows[1] == ["dev", "4", "75.00", "50.00", "0.5000"]


@pytest.fixture
def browser():
  """Returns a function of arguments that runs Chromium without a window, and returns the finished process."""
  path = shutil.which("chromium") or shutil.which("google-chrome")
  if path is None:
    pytest.skip("Chromium is not installed (apt-get install chromium)")
  flags = ["--headless", "--no-sandbox", "--disable-gpu"]
  options = {"capture_output": True, "text": True, "check": True}
  return lambda *arguments: subprocess.run([path, *flags, *arguments], **options)


@pytest.mark.slow
def test_in_a_browser(tmp_path, browser):
  """Draws the page, light and dark: no error on the console, and a picture that is not empty."""
  write(tmp_path, np.arange(COUNT) % 6.0)
  pictures = {}
  for name, arguments in {"light": [], "dark": ["--force-dark-mode"]}.items():
    path = tmp_path / f"{name}.png"
    arguments += ["--enable-logging=stderr", "--log-level=0", f"--screenshot={path}", "--window-size=1100,2400"]
    done = browser(*arguments, f"file://{tmp_path}/report.html")
    assert ":CONSOLE" not in done.stderr
    pictures[name] = image.imread(path)[..., :3]  # red, green and blue, [height, width, 3] from 0 to 1
  assert pictures["light"].mean() > 0.8 > 0.3 > pictures["dark"].mean()
  assert min(picture.std() for picture in pictures.values()) > 0.05  # something is drawn


@pytest.mark.slow
def test_a_phone_needs_no_scrolling_sideways(tmp_path, browser):
  """At 400 pixels the page is no wider than the window, whatever its title; tables scroll by themselves."""
  record = record_of(*BETTER, ("whitening+characters-1024", 0.1), matches={"characters": 0.1})
  text = page.page_text(RunRecord(f"STS-B, {'long_name' * 20}", [record], {"command": "x" * 300}))
  (tmp_path / "report.html").write_text(text, encoding="utf-8")
  frame = '<iframe id="page" src="report.html" width="400" height="900"></iframe><p id="width"></p>'
  script = "const root = document.getElementById('page').contentDocument.documentElement;"
  script += "document.getElementById('width').textContent = root.scrollWidth - root.clientWidth"
  (tmp_path / "frame.html").write_text(f'<body onload="{script}">{frame}</body>')
  done = browser("--allow-file-access-from-files", "--dump-dom", f"file://{tmp_path}/frame.html")
  assert re.search(r'<p id="width">(-?\d+)</p>', done.stdout)[1] == "0"
