"""source.py: names, folders, the hub's cache, and a hub of our own on the loopback."""

import http.server
import json
import re
import threading
import time

import huggingface_hub
import pytest
from huggingface_hub import constants, file_download

from bert_flow_tf import SentenceEncoder, SentenceModel
from bert_flow_tf.encoder.checkpoints import source
from bert_flow_tf.encoder.settings import EncoderSettings
from bert_flow_tf.errors import BertFlowError, ConfigError, EncoderError
from tests.encoder import tiny
from tests.testing import rejected

pytestmark = pytest.mark.packages

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER_COMMIT = "fedcba9876543210fedcba9876543210fedcba98"
TEMPLATE = "/{repo_id}/resolve/{revision}/{filename}"
CLOSED = "http://127.0.0.1:9"  # the discard port: nothing listens, so connections are refused


def resolve(name, cache_dir=None, revision=None):
  """Returns the folder of a model."""
  return source.find_source(EncoderSettings.of(name, cache_dir=cache_dir, revision=revision)).folder


def point_to(monkeypatch, url):
  """Does for this process what the environment's HF_ENDPOINT does for a new one."""
  monkeypatch.setattr(constants, "ENDPOINT", url)
  for module in (constants, file_download):
    if hasattr(module, "HUGGINGFACE_CO_URL_TEMPLATE"):  # not file_download of huggingface_hub 2
      monkeypatch.setattr(module, "HUGGINGFACE_CO_URL_TEMPLATE", url + TEMPLATE)


@pytest.fixture
def cache(tmp_path):
  """Returns a function that puts a sound tiny model into a hub cache, as the hub's client lays it out."""

  def put(repo, kind="pt"):
    folder = tmp_path / "cache" / f"models--{repo.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(COMMIT)
    return tiny.save_tiny(folder / "snapshots" / COMMIT, kind=kind)

  return put


@pytest.mark.parametrize("repo", ["google-bert/bert-large-uncased", "bert-large-uncased"])
@pytest.mark.parametrize("name", ["large", "bert-large-uncased"])
def test_short_name_finds_both_spellings_of_the_cache(cache, tmp_path, monkeypatch, repo, name):
  point_to(monkeypatch, CLOSED)
  snapshot = cache(repo)
  assert resolve(name, tmp_path / "cache") == snapshot


@pytest.mark.parametrize("name", ["base", "someone/else", "google-bert/bert-base-uncased"])
def test_offline_fails_at_once_and_says_how_to_mend(tmp_path, monkeypatch, name):
  point_to(monkeypatch, CLOSED)
  repo = source.HUB_NAMES.get(name, name)
  with rejected(EncoderError, "model", match=f"{repo}.*{re.escape(str(tmp_path))}"):
    SentenceEncoder.from_pretrained(name, cache_dir=tmp_path)


def test_a_network_that_swallows_packets_is_asked_once(tmp_path, monkeypatch):
  """The hub's client alone would retry for more than a minute: it is not called before the hub has answered."""
  calls = []

  class Session:
    def head(self, url, timeout):
      calls.append((url, timeout))
      raise TimeoutError("no answer")

  def download(repo, local_files_only=False, **unused):
    assert local_files_only
    raise FileNotFoundError("not cached")

  point_to(monkeypatch, CLOSED)
  monkeypatch.setattr(huggingface_hub.utils, "get_session", Session)
  monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
  with rejected(EncoderError, "model", match="TimeoutError"):
    SentenceEncoder.from_pretrained("base", cache_dir=tmp_path)
  assert calls == [(CLOSED, source._PROBE_SECONDS)] and source._PROBE_SECONDS <= 5


@pytest.mark.parametrize("name", ["", "bass", "no/such/folder", "../x", "~/none", "/none", "a b/c"])
def test_unknown_name_lists_the_allowed(tmp_path, monkeypatch, name):
  monkeypatch.chdir(tmp_path)
  with rejected(EncoderError, "model"):
    resolve(name)


def test_a_name_that_no_file_can_have():
  with rejected(ConfigError, "model", match="too long"):
    resolve("n" * 300)


def test_folder_wins_over_hub_id_and_a_file_is_no_folder(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  folder = tiny.save_tiny(tmp_path / "org" / "name")
  assert resolve("org/name").samefile(folder)
  with rejected(EncoderError, "model"):
    resolve("org/name/config.json")


@pytest.fixture
def two_commits(cache, tmp_path):
  """Returns the cache folder of someone/tiny, with other weights at the tag v1 than at main."""
  cache("someone/tiny")
  folder = tmp_path / "cache/models--someone--tiny"
  (folder / "refs/v1").write_text(OTHER_COMMIT)
  tiny.save_tiny(folder / "snapshots" / OTHER_COMMIT, tiny.random_weights(seed=1))
  return tmp_path / "cache"


@pytest.mark.parametrize(
  ("revision", "commit"),
  [(None, COMMIT), ("main", COMMIT), (COMMIT, COMMIT), ("v1", OTHER_COMMIT), (OTHER_COMMIT, OTHER_COMMIT)],
)
def test_a_revision_chooses_the_commit(two_commits, monkeypatch, revision, commit):
  point_to(monkeypatch, CLOSED)
  settings = {"cache_dir": two_commits, "revision": revision, "token_weights": "uniform"}
  from_hub = SentenceEncoder.from_pretrained("someone/tiny", **settings)
  assert (from_hub.folder.name, from_hub.revision) == (commit, commit)
  static = SentenceEncoder.from_pretrained("static:someone/tiny", **settings)
  assert static.revision == commit
  # The same files as a local folder: the same identity, but for the name and the commit.
  local = SentenceEncoder.from_pretrained(from_hub.folder)
  assert local.identity().deciding() == from_hub.identity().deciding()
  assert (local.identity().settings.model_revision, from_hub.identity().settings.model_revision) == (None, commit)


def test_a_folder_named_snapshots_of_the_user_has_no_commit(tmp_path):
  folder = tiny.save_tiny(tmp_path / "snapshots/v1")
  assert source.find_source(EncoderSettings.of(folder)).revision is None


def test_a_saved_calibration_loads_the_commit_of_its_fit(two_commits, tmp_path, monkeypatch):
  point_to(monkeypatch, CLOSED)
  model = SentenceModel.from_pretrained("someone/tiny", cache_dir=two_commits, revision="v1", max_seq_length=9)
  model.fit(["a dog.", "a cat.", "dogs", "a b"], "sn").save(tmp_path / "sn")
  loaded = SentenceModel.load(tmp_path / "sn", cache_dir=two_commits)
  assert loaded.identity == model.identity and loaded.identity.settings.model_revision == OTHER_COMMIT
  tiny.save_tiny(tmp_path / "someone/tiny")
  monkeypatch.chdir(tmp_path)  # a folder with the name of the hub's model
  assert SentenceModel.load(tmp_path / "sn", cache_dir=two_commits).identity == model.identity
  with rejected(EncoderError, "folder", match="someone/tiny"):
    SentenceModel.load(tmp_path / "sn", cache_dir=tmp_path / "empty")
  with pytest.raises(EncoderError, match="weights_sha256"):
    SentenceModel.load(tmp_path / "sn", cache_dir=two_commits, revision="main")
  with pytest.raises(EncoderError, match="weights_sha256"):
    SentenceModel.load(tmp_path / "sn", model="someone/tiny", cache_dir=two_commits)


@pytest.mark.parametrize("revision", ["", " ", "../main", "a/../b", "-v1", "a b", 1])
def test_what_is_no_revision(two_commits, revision):
  with pytest.raises(BertFlowError) as caught:
    resolve("someone/tiny", two_commits, revision)
  assert caught.value.argument in ("revision", "model_revision")


def test_a_revision_that_is_not_available(two_commits, monkeypatch):
  point_to(monkeypatch, CLOSED)
  with rejected(EncoderError, "model", match="someone/tiny at revision v2"):
    resolve("someone/tiny", two_commits, "v2")
  for name in ("mini", str(two_commits)):
    with rejected(EncoderError, "revision"):
      resolve(name, two_commits, "main")


class Hub(http.server.BaseHTTPRequestHandler):
  """A hub that serves the files of a folder as the model someone/tiny."""

  folder = None

  def do_GET(self):
    path = self.folder / self.path.rpartition("/")[2]
    if self.path == "/":
      self.reply(200, b"hub")
    elif self.path.startswith("/api/models/someone/tiny/tree/"):  # huggingface_hub 2 asks for it
      files = [(file.name, file.stat().st_size) for file in self.folder.iterdir()]
      entries = [{"type": "file", "path": name, "size": size, "oid": name} for name, size in files]
      self.reply(200, json.dumps(entries).encode())
    elif self.path.startswith("/api/models/someone/tiny"):
      siblings = [{"rfilename": file.name} for file in self.folder.iterdir()]
      self.reply(200, json.dumps({"id": "someone/tiny", "sha": COMMIT, "siblings": siblings}).encode())
    elif not self.path.startswith("/someone/tiny/resolve/"):
      self.reply(404, b"", **{"X-Error-Code": "RepoNotFound"})
    elif not path.is_file():
      self.reply(404, b"", **{"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
    else:
      self.reply(200, path.read_bytes(), **{"X-Repo-Commit": COMMIT, "ETag": f'"{path.name}"'})

  do_HEAD = do_GET

  def reply(self, status, body, **headers):
    self.send_response(status)
    for name, value in {**headers, "Content-Length": len(body)}.items():
      self.send_header(name, str(value))
    self.end_headers()
    if self.command == "GET":
      self.wfile.write(body)

  def log_message(self, *unused):
    pass


@pytest.fixture
def served(tmp_path, monkeypatch):
  """Returns the folder that a hub on the loopback serves."""
  monkeypatch.setattr(Hub, "folder", tmp_path / "served")
  server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
  threading.Thread(target=server.serve_forever, daemon=True).start()
  point_to(monkeypatch, f"http://127.0.0.1:{server.server_address[1]}")
  yield tmp_path / "served"
  server.shutdown()
  server.server_close()


@pytest.mark.parametrize("kind", ["pt", "h5", "shards"])
def test_download(served, tmp_path, monkeypatch, kind):
  tiny.save_tiny(served, kind=kind)
  (served / "tokenizer_config.json").unlink()  # optional
  (served / "pytorch_model.bin").write_bytes(b"never fetched")
  downloaded = SentenceEncoder.from_pretrained("someone/tiny", cache_dir=tmp_path / "cache")
  assert downloaded.weights_checksum == SentenceEncoder.from_pretrained(served).weights_checksum
  assert downloaded.revision == COMMIT
  assert not (downloaded.folder / "pytorch_model.bin").exists()
  point_to(monkeypatch, CLOSED)
  assert SentenceEncoder.from_pretrained("someone/tiny", cache_dir=tmp_path / "cache").folder == downloaded.folder


def test_download_of_what_is_not_there(served, tmp_path):
  with rejected(EncoderError, "model", match="some/one"):
    SentenceEncoder.from_pretrained("some/one", cache_dir=tmp_path / "cache")
  tiny.save_tiny(served)
  (served / "model.safetensors").rename(served / "pytorch_model.bin")
  with pytest.raises(EncoderError, match=r"model\.safetensors"):
    SentenceEncoder.from_pretrained("someone/tiny", cache_dir=tmp_path / "cache")


def test_hub_without_the_network_in_the_middle_is_not_taken_for_a_missing_file(served, tmp_path, monkeypatch):
  tiny.save_tiny(served)

  def fail(self, status, body, **headers):
    reply(self, 503 if "vocab" in self.path else status, body, **headers)

  reply = Hub.reply
  monkeypatch.setattr(Hub, "reply", fail)
  monkeypatch.setattr(time, "sleep", lambda seconds: None)  # the client's pauses between retries
  with rejected(EncoderError, "model", match="someone/tiny"):
    SentenceEncoder.from_pretrained("someone/tiny", cache_dir=tmp_path / "cache")
