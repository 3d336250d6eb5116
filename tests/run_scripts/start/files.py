"""Files of the command lines of bert_flow_test."""

import gzip
import importlib.util
import json
import tarfile
from itertools import product

SENTENCES = [
  "A man is eating.",
  "A dog runs in the park.",
  "A man is eating.",
  "The dog is running in a park.",
  "Prices rose in May, the office said.",
]
# (id, title, text): the second and the last record are equal with their title.
BEIR = [
  ("q1", "Dogs", SENTENCES[1]),
  ("q2", "Food", SENTENCES[0]),
  ("q3", "", SENTENCES[4]),
  ("q4", "", f"Food {SENTENCES[0]}"),
]
_NAMES = ("hall", "turner", "novak", "berg")
HAS_PARQUET = importlib.util.find_spec("pyarrow") is not None


def prepare(folder):
  """Writes the files."""
  pairs = [SENTENCES[:2], SENTENCES[3:]]
  tsv = "".join(f"{a}\t{b}\n" for a, b in pairs)
  files = {
    "pairs.tsv": tsv,
    "headed.tsv": "sentence2\tid\tsentence1\n" + "".join(f"{b}\t{i}\t{a}\n" for i, (a, b) in enumerate(pairs)),
    "graded.tsv": "".join(f"{i}.5\t{a}\t{b}\r\n" for i, (a, b) in enumerate(pairs)) + "\r\n\n",
    "pairs.csv": 'Sentence1, sentence2,note\n"A man is eating.",A dog runs in the park.,"two\nlines, ""quoted"""\n\n',
    "one.tsv": "one\n",
    "ragged.tsv": "a\tb\nc\n",
    "bytes.tsv": b"a\t\xff\n",
    "quote.csv": 'a,"b\nc,d\n',
    "empty.tsv": "",
    "empty.csv": "",
    "a.tfrecord": "",
    "named.tsv": "label\tfirst\tsecond\n1\tA man is eating.\tA man has lunch.\n",
    "returns.csv": '\ufeff"A dog\rruns",B\r\n',
    "cut.tsv.gz": gzip.compress(b"a\tb\n" * 99)[:20],
    "pairs.tsv.gz": gzip.compress(tsv.encode()),
    "lines.jsonl": '{"a": 1}\n',
    "gaps.tsv": f"{tsv}\tA dog.\nA dog.\t \n\t\n",
    "rows.jsonl": "".join(json.dumps({"sentence2": b, "sentence1": a, "n": 7}) + "\n" for a, b in [*pairs, ("", "")]),
    "queries.csv": 'id,text\n7,"A man, eating."\n',
    "scored.tsv": "sentence1\tsentence2\tsimilarity\na\tb\t1\n",
    "corpus.txt": "\n\n".join(SENTENCES) + "\n",
    "corpus.csv": "id,text\n" + "".join(f'n{i},"{text}"\n' for i, text in enumerate(SENTENCES)),
    "queries.txt": "\n".join(SENTENCES[::-1]),
    "ids.tsv": "".join(f"{i}\t{text}\tA dog.\n" for i, text in enumerate(SENTENCES, 1)),
    "later.jsonl": '{"sentence1": "a", "sentence2": "b"}\n{"sentence1": "a", "sentence2": "b", "similarity": 1}\n',
    "array.json": json.dumps([{"text": text} for text in SENTENCES], indent=1),
    "sheet.xlsx": b"PK\x03\x04",
    "large.txt": "\n".join(["word " * 250_000, SENTENCES[0], "word " * 250_000]),
    "gaps.csv": f"\ufefftext,n\r\n{SENTENCES[0]},1\r\n,2\r\n\r\n{SENTENCES[0]},3\r\n  ,4\r\n",
    "unknown.txt": "婚礼在明天\n菜单\n婚礼在明天\n" + "\n".join(SENTENCES),
    "new.txt": f"{SENTENCES[0]}\nA new one.\nA new ONE!\n",
    "people.csv": "name,address\nJohn Miller,1 High Street\nJohn Miller,9 Low Road\nMary Baker,1 High Street\n"
    + "Mary Baker,1 HIGH Street\n",
    "brands.txt": "Case for phone 苹果\nCase for phone 华为\nCase for phone 苹果\n",
    "cone.txt": "\n".join(f"{name} {street} {city}" for name, street, city in product(*[_NAMES] * 3)),
    "quoted.tsv": 'text\n"He said ""no""."\n"He said\n""no""."\nA dog.\n',
    "braces.tsv": "{A man}\tB\n{}\tC\n",
    "blank.jsonl": "\n\n".join(json.dumps({"sentence1": a, "sentence2": b, "score": len(a)}) for a, b in pairs),
  }
  beir = "".join(json.dumps({"_id": name, "title": title, "text": text}) + "\n" for name, title, text in BEIR)
  files |= {
    "beir.jsonl": beir,
    "beir.jsonl.gz": gzip.compress(beir.encode()),
    "tabs.csv": 'id,text\nq 2,The dog\n"q\t2",A man\n',
    "again.tsv": "id\ttext\n7\tThe dog\n7\tA man\n",
    "topics.tsv": "q1\tThe dog\nq2\tprices\n",
    "a.tar": tarfile.TarInfo("topics.tsv").tobuf() + bytes(1024),
  }
  for name, content in files.items():
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
  for path, content in (("saved/state.json", "{}"), ("table/config.json", '{"model_type": "model2vec"}')):
    name = path.split("/")[0]
    files[name] = ""
    (folder / name).mkdir()
    (folder / path).write_text(content)
  if not HAS_PARQUET:
    return set(files)
  import pyarrow as pa
  from pyarrow import parquet

  table = pa.table({"sentence1": [a for a, _ in pairs], "sentence2": [b for _, b in pairs], "n": [1, 2]})
  parquet.write_table(table, folder / "rows.parquet")
  parquet.write_table(pa.table({"n": range(5), "text": SENTENCES}), folder / "one.parquet")
  return {*files, "rows.parquet", "one.parquet"}
