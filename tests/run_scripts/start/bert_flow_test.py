"""The command `bert-flow`: its list, the help of each command, and score, search and dedupe, in one process."""

import csv
import gzip
import importlib.util
import json
import re

import numpy as np
import pytest

from bert_flow_tf import SentenceModel, search
from bert_flow_tf.errors import EncoderError
from bert_flow_tf.vectors.model_of_vectors import load_model_of
from bert_flow_tf.vectors.vector_folder import VectorFolder
from run_scripts.bert_flow import COMMANDS
from tests.run_scripts.start.files import BEIR, HAS_PARQUET, SENTENCES, prepare
from tests.testing import REPO, finished_python, rejected
from tests.vectors.toy_rows import all_cosines

pytestmark = pytest.mark.packages
HAS_FAISS = importlib.util.find_spec("faiss") is not None
HAS_BM25S = HAS_FAISS and importlib.util.find_spec("bm25s") is not None

# Runs command lines, [its words, standard input] of each; prints [[status, stdout, stderr, whether TensorFlow is
# imported]]. From the line of the number sys.argv[1] on, each encoder is loaded once.
_RUN = """
import contextlib, functools, io, json, sys
from absl import flags
import bert_flow_tf
from run_scripts import bert_flow, runner
results, first_right = [], int(sys.argv[1])
for words, text in json.load(sys.stdin):
  if len(results) == first_right:
    encoder = bert_flow_tf.SentenceEncoder
    encoder.from_pretrained = functools.cache(encoder.from_pretrained)
  before = set(flags.FLAGS)
  sys.argv, sys.stdin = ["bert-flow", *words], None
  if text is not None:  # else closed, as by <&-
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
  out, err = io.StringIO(), io.StringIO()
  status = "returned"
  with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
    try:
      bert_flow.main()
    except SystemExit as stop:
      status = stop.code
  results.append([status, out.getvalue(), err.getvalue(), "tensorflow" in sys.modules])
  for name in set(flags.FLAGS) - before:
    delattr(flags.FLAGS, name)
print(json.dumps(results))
"""
_WITHOUT_MODEL = ("eval --predictions", "export", "report", "serve-check", "index", "dedupe --vectors", "calibrate")
WRONG = {
  "score pairs.tsv --model=table": "--model=table: a static model, which has no transformer; give static:table",
  "fit --model=gpt2": "--model=gpt2",
  "fitt": "'fitt' is no command",
  "score": "--input: missing",
  "score absent.tsv": "error: absent.tsv: no such file",
  "score .": "error: .: a folder",
  "score saved": "error: saved: a folder; expected a file, as Dataset.to_parquet(FILE)",
  "fit saved": "error: saved is a folder; expected a file, as Dataset.to_parquet(FILE)",
  "score one.tsv": "one.tsv: has 1 column (1), expected sentence1 and sentence2; or --columns",
  "serve-check one.tsv": "one.tsv: has 1 column (1), expected sentence1 and sentence2\n",  # no --columns
  "fit a.tfrecord": "a.tfrecord: is tfrecord, expected text, TSV, CSV, JSON lines or Parquet",
  "score ragged.tsv": "ragged.tsv, line 2: 1 column",
  "score bytes.tsv": "bytes.tsv, line 1: byte 0xff",
  "score quote.csv": "quote.csv, record 1",
  "score empty.tsv": "empty.tsv is empty",
  "score cut.tsv.gz": "cut.tsv.gz cannot be unpacked",
  "score lines.jsonl": "lines.jsonl: has 1 column (a)",
  "score pairs.tsv pairs.csv": "expected one file, got 2",
  "score scored.tsv": "has a column 'similarity'",
  "score pairs.tsv --columns=1": "--columns=1: expected two",
  "score pairs.tsv --columns=a,b": "0 columns 'a' in the header",
  "score pairs.tsv --output=absent/out.tsv": "--output=absent/out.tsv: expected a file in an existing folder",
  "score pairs.tsv --output=": "--output: empty",
  "score pairs.tsv --output=out.tsv.bz2": "--output=out.tsv.bz2: expected another ending: output is packed by gzip",
  "score pairs.tsv --output=out.parquet": "--output=out.parquet: tsv is written; expected a name that ends in .tsv",
  "score rows.jsonl --output=rows.csv": "--output=rows.csv: jsonl is written; expected a name that ends in .jsonl",
  "dedupe corpus.txt --output=out.jsonl.gz": "--output=out.jsonl.gz: text is written; expected a name",
  "search corpus.txt query --output=hits.csv": "--output=hits.csv: tsv is written",
  "score pairs.tsv --output=.": "--output=.: expected a file",
  "embed corpus.csv --column=id --column=text --output=x": "--column is given twice: 'id' and 'text'; give it once",
  "dedupe people.csv --column=name --column=address": "'name' and 'address'; give it once, as --column=name,address\n",
  "search corpus.txt --queries=beir.jsonl --query_column=title --query_column=text": "as --query_column=title,text\n",
  "score pairs.tsv --calibration=mean --recipe=fast --calibration=sn": "--calibration is given twice",
  "embed corpus.txt --output_dir=-": "--output_dir=-: is standard output; expected a folder",
  "fit pairs.tsv --output=-": "--output=-: is standard output; expected a folder",
  "export --export_dir=-": "--export_dir=-: is standard output; expected a folder",
  "score pairs.tsv --columns=0,1": "--columns=0: expected 1 or more",
  "score pairs.tsv --columns=²,1": "0 columns '²' in the header",
  "score named.tsv": "sentence1, sentence2 and score",
  "dedupe empty.csv --column=1 --header": "empty.csv is empty",
  "export --export_dir=a --output=b": "--output is another name of --export_dir",
  "fit --output=a --exp_name=b": "--output=a: exp_name names a folder, too",
  "score pairs.tsv --allow_other_encoder": "--allow_other_encoder: needs flow_folder",
  "dedupe pairs.tsv": "--column",
  "dedupe corpus.txt --threshold=2": "--threshold=2",
  "score pairs.tsv --calibration=PCA": "--calibration=PCA",
  "score pairs.tsv --calibration=mean --flow_folder=f": "--calibration: has no use with flow_folder",
  "score pairs.tsv --recipe=fast --flow_folder=f": "--recipe: has no use with flow_folder",
  "search corpus.txt query --recipe=paper": "--recipe=paper: static:mini has no transformer",
  "search corpus.txt corpus.csv": "corpus.csv: a second file",
  "search corpus.txt query --queries=queries.txt": "--queries: has no use",
  "search corpus.txt --queries=pairs.tsv": "--queries=pairs.tsv: has 2 columns (1, 2), expected sentence",
  "search corpus.txt --queries=headed.tsv": "--queries=headed.tsv: has 3 columns (sentence2, id, sentence1)",
  "search pairs.tsv query": "pairs.tsv: has 2 columns (1, 2), expected sentence",
  "search -": "--queries: missing",
  "search corpus.txt": "--queries: missing; expected queries, as standard input is closed",
  "search corpus.txt --queries=-": "--queries: -: standard input is closed",
  "dedupe -": "error: -: standard input is closed",
  "fit pairs.tsv corpus.txt": "error: pairs.tsv,corpus.txt: expected one file",
  "fit sts-b": "--task=sts-b",
  "fit --data_dir=pairs.tsv": "the task sample reads no files; choose another task, as --task=custom for a file",
  "fit --calibratoin=sn": "'calibratoin' (did you mean calibration?); --help",
  "fit absent.tsv": "error: absent.tsv does not exist",
  "fit pairs.tsv --task=STS-B": "--task: has no use with the file pairs.tsv",
  "eval pairs.tsv --data_dir=absent": "--data_dir: has no use with the file pairs.tsv",
  "fit --beir=mine pairs.tsv": "--beir=mine: has no use with the file pairs.tsv, as each is what is evaluated; leave "
  "one out, or fit on the sentences of the file by --flow_corpus=pairs.tsv",
  "eval pairs.tsv --beir=mine": "--beir=mine: has no use with the file pairs.tsv, as each is what is evaluated; leave",
  "eval pairs.tsv --senteval=mine": "--senteval=mine: has no use with the file pairs.tsv",
  "report": "--input: missing",
  "report absent": "error: absent: no such folder",
  "report pairs.tsv": "error: pairs.tsv: not a folder",
  "report .": "error: .: no results.json in it; expected the folder of a run",
  "export pairs.tsv": "expected only flags",
  "export": "--export_dir: ",
  "export --export_dir=x --version=0": "--version=0",
  "export --export_dir=x --calibration_only": "--calibration_only",
  "export --export_dir=x --flow_folder=y --calibration_only --low_dim=2": "--low_dim",
  "export --export_dir=x --reference=absent.txt": "--reference",
  "serve-check": "--input: ",
  "serve-check --golden=absent.json --server=http://localhost:1": "--golden=absent.json",
  "serve-check --input=pairs.tsv --server=http://localhost:1": "--server",
  "search corpus.txt --output=x": "--output: needs queries",
  "search corpus.txt --queries=absent": "--queries: absent does not exist",
  "search corpus.txt --queries=empty.tsv": "--queries: empty.tsv is empty",
  "search empty.tsv query --column=1": "is empty",
  "search corpus.txt --top_k=0": "--top_k=0",
  "search corpus.txt query --top_k=1.5": "--top_k=1.5: expected an integer;",
  "search corpus.txt query --saved_model=F": "'saved_model' (expected --model=saved_model:FOLDER);",
  "search corpus.txt query --query_id_column=id": "--query_id_column: needs --queries=FILE, which has it",
  "search corpus.txt --output_format=trec": "--output_format: needs queries",
  "search - --queries=-": "--queries: standard input is the corpus already",
  "search corpus.txt --queries=topics.tsv --query_column=2": "--query_header: missing; the first line of topics",
  "search corpus.txt --queries=topics.tsv --query_column=x": "--queries: topics.tsv, line 1: 0 columns 'x'",
  "search corpus.txt --queries=topics.tsv --query_column=0": "--query_column=0: expected 1 or more",
  "search corpus.txt --queries=beir.jsonl --query_header": "--query_header has no meaning for jsonl files",
  "search corpus.txt --queries=beir.jsonl --query_id_column=id": "--queries: beir.jsonl: no record has the key 'id'",
  "search corpus.txt --queries=again.tsv --query_id_column=id": "--query_id_column=id: again.tsv: the id '7' repeats",
  "search corpus.txt --queries=tabs.csv --query_id_column=id": "tabs.csv: the id 'q\\t2' has a tab",
  "search tabs.csv query --id_column=id": "tabs.csv: the id 'q\\t2' has a tab",
  "search tabs.csv query --id_column=id --output_format=trec": "tabs.csv: the id 'q 2' has a blank",
  "search corpus.txt --queries=beir.jsonl --query_column=title,title": "--query_column=title,title: has the column",
  "search beir.jsonl query --column=title,text,title": "--column=title,text,title: has the column 'title' 2 times",
  "score pairs.tsv --columns=2,2": "--columns=2,2: has the column '2' 2 times",
  "fit pairs.tsv --columns=1,1": "--columns=1,1: has the column '1' 2 times",
  "search corpus.txt --queries=a.tar": "--queries: a.tar is a tar archive",
  "search beir.jsonl query --id_column=text --output_format=trec": "--id_column=text: ",
  "search corpus.txt query --output=run.trec": "--output=run.trec: tsv is written; give --output_format=trec",
  "search corpus.txt query --output_format=trec --output=run.tsv": "--output=run.tsv: trec is written; expected a name",
  "search quoted.tsv query --output=quoted.tsv": "--output=quoted.tsv: is the file of input, whose records would be",
  "search corpus.txt --queries=queries.txt --output=queries.txt": "--output=queries.txt: is the file of queries, whose",
  "search corpus.txt query --hybrid=bm26": "error: --hybrid=bm26: expected bm25",
  "search corpus.txt The_dog --calibration=mean --fit_queries": "--fit_queries: needs --queries=FILE",
  "search corpus.txt --queries=queries.txt --fit_queries": "--fit_queries: needs calibration or recipe",
  "fit corpus.txt --query_column=a": "--query_column: needs --queries=FILE",
  "fit corpus.txt --queries=absent": "--queries: absent does not exist",
  "fit corpus.txt --queries=headed.tsv": "--queries=headed.tsv: has 3 columns (sentence2, id, sentence1)",
  "fit corpus.txt --queries=headed.tsv --query_column=x": "--queries: headed.tsv, line 1: 0 columns 'x'",
  "search corpus.txt --query=": "error: --query='': blank",
  "score ids.tsv": "column 1 has the numbers of rows",
  "eval ids.tsv": "column 1 has the numbers of rows",
  "fit pairs.tsv --flow_corpus=ids.tsv": "column 1 has the numbers of rows",
  "serve-check ids.tsv --server=http://localhost:1": "column 1 has the numbers of rows",
  "score later.jsonl": "has a column 'similarity'",
  "embed array.json --column=text --output=x": "a JSON array; expected JSON lines",
  "dedupe sheet.xlsx": "an Excel file",
  "dedupe large.txt": "--max_record_bytes",
  "index": "--vectors: missing",
  "index a b": "error: a,b: expected one folder",
  "index .": "error: .: no manifest.json in it",
  "search --vectors=absent query": "--vectors=absent: no such folder",
  "search corpus.txt query --index=hnsw": "--index",
  "search --vectors=. query --prompt=a": "--prompt: stands before the texts of the vectors already; query_prompt is",
  "search --vectors=. query --column=a": "--column: has no use with vectors",
  "dedupe --vectors=. --model=mini": "--model: has no use with vectors",
  "dedupe --vectors=. --against=absent": "--against=absent: no such folder",
  "dedupe --vectors=. corpus.txt": "error: corpus.txt: has no use with vectors",
  "dedupe corpus.txt --calibration=mean --output=./corpus.txt": "is the input, on which mean is fitted",
  "dedupe new.txt --against=corpus.txt --output=corpus.txt": "--output=corpus.txt: is the file of against",
  "dedupe corpus.txt --threshold=nan": "--threshold=nan: expected",
  "dedupe corpus.txt --report=dropped.csv": "--report=dropped.csv: expected a name that ends in .tsv or .jsonl",
  "dedupe corpus.txt --report=dropped.tsv.gz": "--report=dropped.tsv.gz: expected a name that ends in .tsv or .jsonl",
  "dedupe quoted.tsv --report=same.tsv --output=./same.tsv": "--report=same.tsv: is the output, too",
  "dedupe quoted.tsv --report=quoted.tsv": "quoted.tsv: is the file of the records",
  "dedupe corpus.txt --report=absent/dropped.tsv": "--report=absent/dropped.tsv: expected a file in an existing folder",
  "dedupe corpus.txt --dry_run --output=out.txt": "--output: has no use with dry_run",
  "dedupe corpus.txt --against=absent.txt": "absent.txt",
  "dedupe people.csv --column=": "--column: empty",
  "dedupe people.csv --column=name,absent": "'absent'",
  "dedupe cone.txt --model=mini --threshold=0.8 --report=never.tsv": "--threshold=0.8: unrelated texts reach it",
  "dedupe corpus.txt --recipe=fast --output=corpus.txt": "is the input, on which soft-whitening is fitted",
}
RIGHT = {
  "score pairs.tsv": "",
  "score pairs.csv --output=out.csv": "",
  "score pairs.tsv.gz --columns=2,1 --output=out.tsv.gz": "",
  "score headed.tsv --output=headed.tsv": "",
  "score graded.tsv": "",
  "score returns.csv --output=out_returns.csv": "",
  "score pairs.tsv --columns=2 --columns=1 --output=-": "",
  "score -": "A man is eating.\tA dog runs in the park.\n",
  "score gaps.tsv": "",
  "score rows.jsonl": "",
  "score graded.tsv --calibration=mean": "",
  "score graded.tsv --recipe=fast --calibration=mean": "",
  "score gaps.tsv --calibration=mean": "",
  "score blank.jsonl --output=judged.jsonl": "",
  "eval --predictions=judged.jsonl": "",
  "eval graded.tsv --columns=2,3,1": "",
  "search corpus.txt The_dog --top_k=1": "",
  "search - The_dog A_man --top_k=1 --calibration=mean": "\n".join(SENTENCES),
  "search corpus.csv --id_column=id --queries=queries.csv --top_k=1": "",
  "dedupe - --threshold=0.999": "\n".join(SENTENCES),
  "fit graded.tsv --calibration=mean --output=fitted": "",
  "report fitted": "",
  "eval graded.tsv": "",
  "eval - --flow_folder=fitted/mean": "".join(f"{i}\t{text}\tA dog.\n" for i, text in enumerate(SENTENCES)),
  "dedupe corpus.txt --threshold=0.999": "",
  "dedupe corpus.csv --column=text --threshold=0.999 --output=out_corpus.csv": "",
  "search corpus.txt --queries=queries.txt --top_k=2 --output=hits.tsv": "",
  "dedupe gaps.csv": "",
  "dedupe new.txt --against=corpus.txt --report=new.tsv": "",
  "dedupe people.csv --column=name,address --dry_run --report=people.jsonl": "",
  "dedupe people.csv --column=name,address": "",
  "dedupe brands.txt --threshold=1": "",
  "dedupe unknown.txt": "",
  "dedupe quoted.tsv": "",
  "dedupe large.txt --max_record_bytes=2000000 --output=large.txt": "",
  "score braces.tsv": "",
  "eval blank.jsonl": "",
  "search corpus.csv --column=text --id_column=id --top_k=1": "A dog runs in the park.\n\nA man is eating.\n",
}

_TREC = "--id_column=_id --output_format=trec"
RIGHT |= {
  "search beir.jsonl --id_column=_id --queries=beir.jsonl --query_id_column=_id --top_k=2": "",
  f"search beir.jsonl --column=title,text {_TREC} --queries=beir.jsonl.gz --query_id_column=_id": "",
  f"search beir.jsonl {_TREC} --queries=topics.tsv --query_column=2 --query_id_column=1 --noquery_header": "",
  f"search beir.jsonl {_TREC} --queries=- --query_column=2 --top_k=1": "7\tThe dog\n8\tA man\n",
  f"search beir.jsonl {_TREC} The_dog --top_k=1": "",
  "search unknown.txt 菜单 --top_k=1": "",
}

# The mean of queries, in a fit of its own or in that of the search.
RIGHT |= {
  "fit corpus.txt --calibration=mean --queries=headed.tsv --query_column=sentence2 --output=of_roles": "",
  "search corpus.txt The_dog --flow_folder=of_roles/mean --top_k=1": "",
  "search corpus.txt --queries=queries.txt --calibration=mean --fit_queries --top_k=1": "",
}

_PROMPTED = "--prompt=passage: --query_prompt=query:"
RIGHT |= {
  f"search corpus.csv --column=text The_dog --top_k=5 {_PROMPTED}": "",
  f"embed corpus.csv --column=text --output=prompted {_PROMPTED}": "",
  "search --vectors=prompted The_dog --top_k=5": "",
  "search --vectors=prompted The_dog --top_k=5 --query_prompt=": "",
}

# Folders of vectors in a folder, with distinct ids and with others.
for _folder, _others in (("days", "beir.jsonl --id_column=_id"), ("weeks", "corpus.csv --column=text")):
  RIGHT |= {
    f"embed corpus.csv --column=text --output={_folder}/a" + " --id_column=id" * (_folder == "days"): "",
    f"embed {_others} --output={_folder}/b": "",
    f"search --vectors={_folder} The_dog --top_k=3 --output_format=trec": "",
  }
RIGHT["search --vectors=days The_dog A_man --top_k=3"] = ""

# Vectors, of which a record is none; they are calibrated, and then searched.
RIGHT |= {
  "embed - --output=partly": "A dog.\nA\0cat.\n",
  "embed corpus.csv --column=text --output=plain --output_format=jsonl": "",
  "calibrate --input=plain --calibration=mean --output=plain_mean": "",
  "calibrate --input=plain --flow_folder=plain_mean --output=centered": "",
  "search --vectors=centered The_dog --top_k=5": "",
  "dedupe --vectors=centered --threshold=0.999": "",
}

if HAS_BM25S:
  RIGHT |= {
    "search corpus.csv --column=text --id_column=id dog --top_k=3 --hybrid=bm25": "",
    "embed corpus.csv --column=text --id_column=id --keep_text --output=with_texts": "",
    "search --vectors=with_texts dog --top_k=3 --hybrid=bm25": "",
    "index with_texts --hybrid=bm25": "",
    "search --vectors=with_texts dog park --top_k=3 --hybrid=bm25": "",
    "search --vectors=with_texts dog park --top_k=3 --hybrid=bm25 --output_format=trec": "",
  }

if HAS_FAISS:
  RIGHT |= {
    "embed corpus.csv --column=text --id_column=id --output=vectors": "",
    "search --vectors=vectors The_dog --top_k=2": "",
    "embed corpus.csv --column=text --output=calibrated --flow_folder=fitted/mean": "",
    "search --vectors=calibrated The_dog --top_k=5": "",
    "index vectors": "",
    "search --vectors=vectors The_dog --top_k=2 --output=of_index.tsv": "",
    "dedupe --vectors=vectors --threshold=0.999 --index=ivf": "",
    "embed brands.txt --output=brands": "",
    "dedupe --vectors=brands --threshold=1 --report=brands.jsonl": "",
    "dedupe --vectors=brands --against=vectors": "",
    "search corpus.txt The_dog --top_k=1 --index=ivf": "",
    "dedupe corpus.txt --threshold=0.999 --index=ivf": "",
  }

if HAS_PARQUET:
  WRONG["score rows.parquet"] = "--output: missing"
  RIGHT["score rows.parquet --output=out.parquet"] = ""
  RIGHT["dedupe one.parquet --threshold=0.999 --output=out_one.parquet"] = ""


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
  """Returns (folder, names of the files before, {command line: [status, stdout, stderr, TensorFlow is imported]}).

  The log of all is under the name "log".
  """
  folder = tmp_path_factory.mktemp("bert_flow")
  names = prepare(folder)
  lines = [(line, "") for line in ("", "--help", "help fit", "--version")]
  lines += [(f"{command} --help", "") for command in COMMANDS]
  lines += [(line, None) for line in WRONG]
  first_right = len(lines)
  lines += RIGHT.items()
  with_model = []
  for line, text in lines:
    words = line.split()
    takes_model = line in RIGHT or line in WRONG
    if takes_model and "--model" not in line and not line.startswith(_WITHOUT_MODEL):
      words.append("--model=static:mini")
    with_model.append((words, text))
  done = finished_python("-c", _RUN, str(first_right), cwd=folder, text=json.dumps(with_model), PYTHONPATH=str(REPO))
  results = json.loads(done.stdout.splitlines()[-1])
  results = dict(zip([line for line, _ in lines], results, strict=True))
  results["log"] = done.stderr
  return folder, names, results


@pytest.fixture(scope="module")
def model():
  return SentenceModel.from_pretrained("static:mini")


def test_help_starts_without_tensorflow(ran):
  _, _, results = ran
  for line in ("", "--help"):
    status, out, _, _ = results[line]
    assert status == 0 and all(f"\n  {command} " in out for command in COMMANDS)
  for command in COMMANDS:
    status, out, err, has_tensorflow = results[f"{command} --help"]
    assert (status, err, has_tensorflow) == (0, "", False), command
    assert f"\n  bert-flow {command} " in out and "run_" not in re.sub(r"do_\w+|--\w+", "", out), command
    assert "\n  --[no]quiet\n" in out, command
    names = re.findall(r"^  --(?:\[no\])?(\w+)", out, re.MULTILINE)
    reads_files = command not in ("calibrate", "convert", "index", "report")
    assert ("max_record_bytes" in names) == reads_files, command
    assert len(names) == len(set(names)) > 0, command
  assert results["help fit"] == results["fit --help"]
  about = re.search(r"--model=TEXT\n((?:      .*\n)*)", results["eval --help"][1])
  assert " ".join(about[1].split()).endswith("Default: from the calibration; without one, mini.")
  assert results["--version"][1].startswith("bert-flow-tf ")


def test_each_runner_is_a_command():
  runners = {path.stem for path in (REPO / "run_scripts").glob("*.py") if "console = " in path.read_text()}
  assert {module for module, _ in COMMANDS.values()} == runners


def test_wrong_command_lines_are_one_sentence_and_write_nothing(ran):
  folder, names, results = ran
  for line, text in WRONG.items():
    status, out, err, _ = results[line]
    if line == "fitt":  # sys.exit prints it
      err = f"{status}\n"
      status = 1
    assert (status, out, err.count("\n")) == (1, "", 1) and err.startswith("error: ") and text in err, (line, err)
  for line in ("fit --model=gpt2", "score pairs.tsv --model=table"):
    assert not results[line][3]  # TensorFlow takes seconds to import
  written = {"out.csv", "out_returns.csv", "out.tsv.gz", "out_corpus.csv", "hits.tsv", "fitted", "judged.jsonl"}
  written |= {
    "days",
    "weeks",
    "prompted",
    "new.tsv",
    "people.jsonl",
    "plain",
    "plain_mean",
    "centered",
    "of_roles",
    "partly",
  }
  if HAS_PARQUET:
    written |= {"out.parquet", "out_one.parquet"}
  if HAS_FAISS:
    written |= {"vectors", "calibrated", "of_index.tsv", "brands", "brands.jsonl"}
  if HAS_BM25S:
    written |= {"with_texts"}
  assert {path.name for path in folder.iterdir()} == names | written


def test_score(ran, model):
  folder, _, results = ran
  assert [results[line][0] for line in RIGHT] == [0] * len(RIGHT), results
  first, second = (f"{cosine:.6f}" for cosine in model.similarity(SENTENCES[0::3], SENTENCES[1::3]))
  tsv = (folder / "pairs.tsv").read_text().splitlines()
  assert results["score pairs.tsv"][1] == f"{tsv[0]}\t{first}\n{tsv[1]}\t{second}\n"
  assert results["score pairs.tsv --columns=2 --columns=1 --output=-"][1] == results["score pairs.tsv"][1]
  assert gzip.decompress((folder / "out.tsv.gz").read_bytes()).decode() == results["score pairs.tsv"][1]
  assert [line.split("\t")[3] for line in results["score graded.tsv"][1].splitlines()] == [first, second]
  headed = [line.split("\t") for line in (folder / "headed.tsv").read_text().splitlines()]
  assert [row[3] for row in headed] == ["similarity", first, second] and headed[1][1] == "0"
  with (folder / "out.csv").open(newline="") as file:
    rows = list(csv.reader(file))
  with (folder / "pairs.csv").open(newline="") as file:
    before = list(csv.reader(file))
  assert rows == [[*before[0], "similarity"], [*before[1], first]]
  written = (folder / "out_returns.csv").read_bytes()
  assert re.fullmatch(rb'\xef\xbb\xbf"A dog\rruns",B,-?0\.\d{6}\r\n', written)


def test_score_of_other_formats(ran, model):
  folder, _, results = ran
  first, second = (f"{cosine:.6f}" for cosine in model.similarity(SENTENCES[0::3], SENTENCES[1::3]))
  assert results["score -"][1] == f"{SENTENCES[0]}\t{SENTENCES[1]}\t{first}\n"
  assert re.fullmatch(r"\{A man\}\tB\t\S+\n\{\}\tC\t\S+\n", results["score braces.tsv"][1])
  # An empty cell has no similarity.
  assert [line.split("\t")[2] for line in results["score gaps.tsv"][1].splitlines()] == [first, second, "", "", ""]
  rows = [json.loads(line) for line in results["score rows.jsonl"][1].splitlines()]
  assert [row["similarity"] for row in rows] == [float(first), float(second), None]
  assert [row["n"] for row in rows] == [7, 7, 7] and rows[0]["sentence1"] == SENTENCES[0]
  if not HAS_PARQUET:
    return
  from pyarrow import parquet

  table = parquet.read_table(folder / "out.parquet")
  assert table.column_names == ["sentence1", "sentence2", "n", "similarity"]
  np.testing.assert_allclose(table["similarity"].to_pylist(), [float(first), float(second)], atol=1e-6)


def test_a_calibration_is_fitted_on_the_file(ran):
  _, _, results = ran
  model = SentenceModel.from_pretrained("static:mini")
  sides = (SENTENCES[0::3], SENTENCES[1::3])
  expected = model.fit(sides, calibration="mean").similarity(*sides)
  out = results["score graded.tsv --calibration=mean"][1]
  np.testing.assert_allclose([float(line.split("\t")[3]) for line in out.splitlines()], expected, atol=2e-6)
  # As in `fit`, pairs with an empty sentence take no part.
  out = results["score gaps.tsv --calibration=mean"][1]
  np.testing.assert_allclose([float(line.split("\t")[2]) for line in out.splitlines()[:2]], expected, atol=2e-6)
  assert "gaps.tsv: 3 pairs with an empty sentence left out" in results["log"]
  # A recipe gives token weights, too.
  recipe = SentenceModel.from_pretrained("static:mini", recipe="fast")
  expected = recipe.fit(sides, calibration="mean").similarity(*sides)
  out = results["score graded.tsv --recipe=fast --calibration=mean"][1]
  np.testing.assert_allclose([float(line.split("\t")[3]) for line in out.splitlines()], expected, atol=2e-6)
  assert "fitting mean on the sentences of" in results["log"] and "not calibrated" in results["log"]


def test_fit_and_eval_take_a_file(ran, model):
  folder, _, results = ran
  assert json.loads((folder / "fitted/results.json").read_text())["task"] == "custom"
  assert (folder / "fitted/mean/calibration.npz").exists()
  assert "test   2      Spearman" in results["eval graded.tsv"][1]
  tables = [results[line][1].splitlines()[:4] for line in ("eval graded.tsv", "eval graded.tsv --columns=2,3,1")]
  assert tables[0] == tables[1]
  assert "test   2      Spearman  -100.00" in results["eval --predictions=judged.jsonl"][1]
  assert "test   5      Spearman" in results["eval - --flow_folder=fitted/mean"][1]


def test_report_draws_the_page_of_a_run_again(ran):
  folder, _, results = ran
  assert results["report fitted"][1] == "page: fitted/report.html\n"
  assert "No drawing" not in (folder / "fitted/report.html").read_text(encoding="utf-8")


def test_search(ran, model):
  folder, _, results = ran
  embeddings = model.encode(SENTENCES)
  cosines = all_cosines(embeddings[::-1], embeddings)
  header, *hits = [line.split("\t") for line in (folder / "hits.tsv").read_text().splitlines()]
  assert header == ["query", "rank", "similarity", "id", "sentence"]
  expected = []
  for query, row in zip(SENTENCES[::-1], cosines, strict=True):
    for rank, nearest in enumerate(np.argsort(-row, kind="stable")[:2], 1):
      expected.append((query, str(rank), row[nearest], SENTENCES[nearest]))
  for hit, (query, rank, cosine, sentence) in zip(hits, expected, strict=True):
    assert [hit[0], hit[1], hit[4]] == [query, rank, sentence]
    assert SENTENCES[(int(hit[3]) - 1) // 2] == sentence  # records count from 1, empty lines, too
    assert float(hit[2]) == pytest.approx(cosine, abs=2e-6)  # float32 and 6 digits
  typed = results["search corpus.csv --column=text --id_column=id --top_k=1"][1].splitlines()
  assert typed in [[f"1.000000\tn1\t{SENTENCES[1]}", f"1.000000\tn{row}\t{SENTENCES[0]}"] for row in (0, 2)]
  # Queries as arguments, and in a column.
  (hit,) = results["search corpus.txt The_dog --top_k=1"][1].splitlines()
  assert hit.split("\t")[1:] in (["3", SENTENCES[1]], ["7", SENTENCES[3]])
  header, *hits = results["search - The_dog A_man --top_k=1 --calibration=mean"][1].splitlines()
  assert header.startswith("query\trank") and [hit.split("\t")[0] for hit in hits] == ["The_dog", "A_man"]
  hit = results["search corpus.csv --id_column=id --queries=queries.csv --top_k=1"][1].splitlines()[1].split("\t")
  assert hit[0] == "A man, eating." and hit[3:] in (["n0", SENTENCES[0]], ["n2", SENTENCES[0]])


def test_ids_of_queries(ran, model):
  """In a TSV a column before the others; in TREC's format, where the score decides the order, all digits."""
  _, _, results = ran
  (line,) = (line for line in RIGHT if line.startswith("search beir.jsonl --id_column=_id --queries=beir.jsonl"))
  header, *rows = [text.split("\t") for text in results[line][1].splitlines()]
  assert header == ["query_id", "query", "rank", "similarity", "id", "sentence"]
  expected = [(name, text, rank) for name, _, text in BEIR for rank in ("1", "2")]
  assert [tuple(row[:3]) for row in rows] == expected and {row[4] for row in rows} <= {name for name, *_ in BEIR}
  texts = [f"{title} {text}".removeprefix(" ") for _, title, text in BEIR]
  cosines = all_cosines(model.encode([text for *_, text in BEIR]), model.encode(texts))
  line = next(line for line in RIGHT if "--column=title,text" in line)
  run = [text.split(" ") for text in results[line][1].splitlines()]
  names = [name for name, *_ in BEIR]
  for position, name in enumerate(names):
    lines = [fields for fields in run if fields[0] == name]
    found = [names.index(fields[2]) for fields in lines]
    scores = np.array([np.float32(fields[4]) for fields in lines])
    assert sorted(found) == [0, 1, 2, 3] and (np.diff(scores) <= 0).all()
    assert [(fields[1], fields[3], fields[5]) for fields in lines] == [("Q0", str(n), "bert_flow") for n in range(1, 5)]
    np.testing.assert_allclose(scores, cosines[position][found], atol=1e-6)
  # Two texts with their title are equal, and so are their cosines, as printed.
  tied = [fields[4] for fields in run if fields[0] == "q1" and fields[2] in ("q2", "q4")]
  assert len(set(tied)) == 1
  for end, ids in (("--noquery_header", {"q1", "q2"}), ("--queries=- --query_column=2 --top_k=1", {"1", "2"})):
    line = next(line for line in RIGHT if line.endswith(end))
    assert {text.split(" ")[0] for text in results[line][1].splitlines()} == ids
  assert results[f"search beir.jsonl {_TREC} The_dog --top_k=1"][1].startswith("1 Q0 q1 1 0.")
  assert "1 query of nothing but pieces that the encoder's vocabulary does not know" in results["log"]


def test_ids_of_several_folders_in_a_run_are_those_of_qrels(ran):
  """They have the name of the folder only where they are not distinct without; a TSV always has it."""
  _, _, results = ran
  found = {}
  for folder in ("days", "weeks"):
    lines = results[f"search --vectors={folder} The_dog --top_k=3 --output_format=trec"][1].splitlines()
    found[folder] = [line.split(" ")[2] for line in lines]
  assert len(set(found["days"])) == 3 and {name[0] for name in found["days"]} <= {"n", "q"}
  assert len(set(found["weeks"])) == 3 and {name[:2] for name in found["weeks"]} == {"a/", "b/"}
  assert re.search("vectors=weeks: several of its folders have the id '1', .* as in FOLDER/1", results["log"])
  assert "vectors=days: several" not in results["log"]
  _, *rows = results["search --vectors=days The_dog A_man --top_k=3"][1].splitlines()
  assert {row.split("\t")[3][:2] for row in rows} <= {"a/", "b/"}


def test_dedupe_of_records_that_cannot_be_compared(ran):
  folder, _, results = ran
  # Records without text stay, but for blank lines; the bytes stay, too.
  kept = (folder / "gaps.csv").read_bytes().decode().splitlines(keepends=True)
  assert results["dedupe gaps.csv"][1] == "".join(kept[row] for row in (0, 1, 2, 5))
  assert (
    "3 sentences of 4 kept; 2 records without text among them, not compared; 1 blank line left out" in results["log"]
  )
  unknown = results["dedupe unknown.txt"][1].splitlines()
  assert unknown == (folder / "unknown.txt").read_text().splitlines()[:5] + SENTENCES[3:]
  assert "3 sentences of nothing but pieces that the encoder's vocabulary does not know ([UNK])" in results["log"]
  # The second sentence of a quoted file has two lines.
  assert results["dedupe quoted.tsv"][1].splitlines() == ["text", '"He said ""no""."', "A dog."]
  assert "quoted.tsv: columns are quoted as in CSV" in results["log"]
  assert (folder / "large.txt").read_text().splitlines() == ["word " * 250_000, SENTENCES[0]]


def test_what_dedupe_leaves_out_is_reported(ran):
  folder, _, results = ran
  against = "dedupe new.txt --against=corpus.txt --report=new.tsv"
  assert results[against][1] == "A new one.\n"
  header, *rows = [line.split("\t") for line in (folder / "new.tsv").read_text().splitlines()]
  equal, near = (dict(zip(header, row, strict=True)) for row in rows)
  assert equal == {
    "record": "1",
    "text": SENTENCES[0],
    "original_file": "corpus.txt",
    "original": "1",
    "original_text": SENTENCES[0],
    "cosine": "1.0",
    "reason": "equal",
  }
  names = ("record", "original_file", "original", "original_text", "reason")
  assert [near[name] for name in names] == ["3", str(folder / "new.txt"), "2", "A new one.", "near"]
  assert "1 sentence of 3 kept; compared with 5 of corpus.txt; duplicates: 1 equal, 1 near" in results["log"]


def test_dedupe_of_several_columns(ran):
  folder, _, results = ran
  lines = (folder / "people.csv").read_text().splitlines()
  assert results["dedupe people.csv --column=name,address"][1].splitlines() == lines[:4]
  assert results["dedupe people.csv --column=name,address --dry_run --report=people.jsonl"][1] == ""
  (row,) = map(json.loads, (folder / "people.jsonl").read_text().splitlines())
  assert [row["record"], row["original"], row["text"]] == [5, 4, "Mary Baker 1 HIGH Street"]
  assert row["cosine"] == 1 and row["reason"] == "near"


def test_dedupe_keeps_what_differs_in_unread_parts(ran):
  folder, _, results = ran
  lines = (folder / "brands.txt").read_text(encoding="utf-8").splitlines()
  assert results["dedupe brands.txt --threshold=1"][1].splitlines() == lines[:2]
  assert "1 sentence kept although as similar to another" in results["log"]
  if HAS_FAISS:
    assert results["dedupe --vectors=brands --threshold=1 --report=brands.jsonl"][1].split() == ["1", "2"]
    (row,) = map(json.loads, (folder / "brands.jsonl").read_text().splitlines())
    assert row == {"record": "3", "original_file": "brands", "original": "1", "cosine": 1.0, "reason": "near"}
    assert results["dedupe --vectors=brands --against=vectors"][1].split() == ["1", "2"]


def test_dedupe(ran):
  folder, _, results = ran
  assert results["dedupe - --threshold=0.999"][1].splitlines() == SENTENCES[:2] + SENTENCES[3:]
  if HAS_PARQUET:
    from pyarrow import parquet

    assert parquet.read_table(folder / "out_one.parquet").to_pydict()["n"] == [0, 1, 3, 4]
  distinct = SENTENCES[:2] + SENTENCES[3:]
  assert results["dedupe corpus.txt --threshold=0.999"][1].splitlines() == distinct
  with (folder / "out_corpus.csv").open(newline="") as file:
    assert list(csv.reader(file)) == [["id", "text"], *([f"n{SENTENCES.index(text)}", text] for text in distinct)]


def test_prompts_of_corpus_and_queries(ran, model):
  """A manifest holds both, and a flag replaces that of queries."""
  _, _, results = ran
  documents = model.encode([f"passage:{text}" for text in SENTENCES])
  for line in (line for line in RIGHT if line.startswith("search") and "prompt" in line):
    prompt = "" if line.endswith("=") else "query:"
    cosines = all_cosines(model.encode([f"{prompt}The_dog"]), documents)[0]
    status, printed, *_ = results[line]
    assert status == 0
    found = [fields.split("\t")[:2] for fields in printed.splitlines()]
    assert len(found) == 5
    for cosine, number in found:
      assert float(cosine) == pytest.approx(cosines[int(number) - 1], abs=2e-6), line


@pytest.mark.skipif(not HAS_FAISS, reason="faiss-cpu is not installed: it is the extra search")
def test_bad_records_of_embed_are_a_warning(ran):
  assert re.search(
    "warning: 1 bad record not embedded: .*/partly/dead-letter.* has file, line and reason", ran[2]["log"]
  )


def test_calibrated_vectors_are_searched(ran, model):
  _, _, results = ran
  rows = model.encode(SENTENCES)
  center = rows.mean(axis=0)
  cosines = all_cosines(model.encode(["The_dog"]) - center, rows - center)[0]
  printed = [line.split("\t") for line in results["search --vectors=centered The_dog --top_k=5"][1].splitlines()]
  found = [int(name) - 1 for _, name in printed]
  assert sorted(found) == [0, 1, 2, 3, 4] and found[0] == cosines.argmax()
  np.testing.assert_allclose([float(cosine) for cosine, _ in printed], cosines[found], atol=1e-5)
  assert results["dedupe --vectors=centered --threshold=0.999"][1].split() == ["1", "2", "4", "5"]


@pytest.mark.skipif(not HAS_BM25S, reason="bm25s or faiss-cpu is not installed: they are the extra search")
def test_hybrid_search(ran, model):
  _, _, results = ran
  scores, rows = search(model, ["dog", "park"], SENTENCES, top_k=3, hybrid="bm25")
  expected = [[f"{score:.6f}", f"n{row}"] for score, row in zip(scores[0], rows[0], strict=True)]
  printed = results["search corpus.csv --column=text --id_column=id dog --top_k=3 --hybrid=bm25"][1]
  assert [line.split("\t")[:2] for line in printed.splitlines()] == expected
  printed = results["search --vectors=with_texts dog --top_k=3 --hybrid=bm25"][1]
  assert [line.split("\t") for line in printed.splitlines()] == expected
  header, *lines = results["search --vectors=with_texts dog park --top_k=3 --hybrid=bm25"][1].splitlines()
  assert header == "query\trank\tscore\tid" and [line.split("\t")[2:] for line in lines[:3]] == expected
  run = results["search --vectors=with_texts dog park --top_k=3 --hybrid=bm25 --output_format=trec"][1].splitlines()
  found = [f"{score:.9g}" for score in scores.ravel()]
  assert [line.split()[2] for line in run] == [f"n{row}" for row in rows.ravel()]
  assert [line.split()[4] for line in run] == found


def test_vectors_and_their_index(ran, model):
  folder, _, results = ran
  cosines = all_cosines(model.encode(["The_dog"]), model.encode(SENTENCES))[0]
  expected = [(f"n{row}", cosines[row]) for row in np.argsort(-cosines, kind="stable")[:2]]
  printed = results["search --vectors=vectors The_dog --top_k=2"][1]
  written = (folder / "of_index.tsv").read_text().splitlines()
  assert written[0].split("\t") == ["query", "rank", "similarity", "id"]
  for lines in (printed.splitlines(), [line.split("\t", 2)[2] for line in written[1:]]):
    for line, (name, cosine) in zip(lines, expected, strict=True):
      assert line.split("\t")[1] == name and float(line.split("\t")[0]) == pytest.approx(cosine, abs=2e-6)
  assert "not calibrated; embed with --flow_folder" in results["log"]
  assert "index of 5 vectors: 1 of 1 list read per query, recall 100.0 %" in results["log"]
  assert results["dedupe --vectors=vectors --threshold=0.999 --index=ivf"][1].split() == ["n0", "n1", "n3", "n4"]
  # Of text.
  exact, by_index = "search corpus.txt The_dog --top_k=1", "dedupe corpus.txt --threshold=0.999"
  for line in (exact, by_index):
    assert results[f"{line} --index=ivf"][1] == results[line][1]
  # By the calibration of the manifest, and no other.
  calibrated = SentenceModel.load(folder / "fitted/mean")
  cosines = all_cosines(calibrated.encode(["The_dog"]), calibrated.encode(SENTENCES))[0]
  printed = [line.split("\t") for line in results["search --vectors=calibrated The_dog --top_k=5"][1].splitlines()]
  expected = [cosines[int(name) - 1] for _, name in printed]
  np.testing.assert_allclose([float(cosine) for cosine, _ in printed], expected, atol=2e-6)
  vectors = VectorFolder.open(str(folder / "vectors"))
  with rejected(EncoderError, "vectors", match="another encoder or calibration.*calibration_sha256 none, now"):
    load_model_of(vectors, calibration_folder=str(folder / "fitted/mean"))
  with rejected(EncoderError, "vectors", match="another encoder or calibration"):
    load_model_of(VectorFolder.open(str(folder / "calibrated")), model="mini")
