"""data/files/source.py: plain, gzipped and archived text."""

import gzip
import zipfile

import pytest

from bert_flow_tf.data.files.source import lines
from bert_flow_tf.errors import DataError

# Only a line feed ends a line.
ENDS = "two\u2028\u2029\x85\x0b\x0c\x1cthree"
TEXT = f'é "one"\n{ENDS}\n'.encode()
LINES = [(1, 'é "one"'), (2, ENDS)]


def _file(tmp_path, content, name="text.txt"):
  path = tmp_path / name
  path.write_bytes(content)
  return path


@pytest.mark.parametrize("name", ["text.gz", "text.txt"])
def test_gzip_is_recognized_by_its_content(tmp_path, name):
  assert list(lines(_file(tmp_path, gzip.compress(TEXT, mtime=0), name))) == LINES
  assert list(lines(_file(tmp_path, TEXT, name))) == LINES
  # `cat a.gz b.gz` joins files like this.
  assert len(list(lines(_file(tmp_path, gzip.compress(TEXT, mtime=0) * 2, name)))) == 4


@pytest.mark.parametrize(
  ("content", "message"),
  [
    (gzip.compress(TEXT, mtime=0)[:-9], r" cannot be unpacked \(Compressed file ended"),
    (gzip.compress(TEXT, mtime=0)[:12] + b"\0" * 30, r" cannot be unpacked \("),
    (gzip.compress(TEXT, mtime=0)[:-8] + b"\0" * 8, r" cannot be unpacked \(CRC"),
    (b"\x1f\x8b", r" cannot be unpacked \("),
    (b"\x1f\x8bnonsense that is not gzip", r" cannot be unpacked \("),
    (gzip.compress(b"fine\nno \xff\n", mtime=0), ", line 2: byte 0xff at position 4"),
    ("a\tb\n".encode("utf-16"), ", line 1: UTF-16; expected text in UTF-8"),
    (b"\xfe\xff" + "a\tb\n".encode("utf-16-be"), ", line 1: UTF-16; expected text in UTF-8"),
    (b"a\nb\0\n", ", line 2: a NUL byte"),
    (b"a\rb\r", ", line 1: a carriage return inside the line; .* perl -pe"),
    (b"\na\n", ", line 1: the line is empty"),
  ],
)
def test_malformed_files(tmp_path, content, message):
  path = _file(tmp_path, content)
  with pytest.raises(DataError, match=f"^{path}{message}") as raised:
    list(lines(path))
  assert "\n" not in str(raised.value)


def test_a_file_inside_a_zip_archive(tmp_path):
  with zipfile.ZipFile(tmp_path / "some.zip", "w", zipfile.ZIP_DEFLATED) as archive:
    archive.writestr("folder/text.txt", TEXT)
    archive.writestr("folder/packed.txt.gz", gzip.compress(TEXT, mtime=0))
  inside = zipfile.Path(tmp_path / "some.zip", "folder/")
  assert list(lines(inside / "text.txt")) == list(lines(inside / "packed.txt.gz")) == LINES
  with pytest.raises(DataError, match=r"some\.zip/folder/no\.txt"):
    list(lines(inside / "no.txt"))
  with pytest.raises(DataError, match=r"some\.zip/folder/"):
    list(lines(inside))


def test_a_damaged_file_inside_a_zip_archive(tmp_path):
  path = tmp_path / "some.zip"
  with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("text.txt", TEXT)
  path.write_bytes(path.read_bytes().replace(b"two", b"six", 1))
  with pytest.raises(DataError, match=r"some\.zip/text\.txt"):
    list(lines(zipfile.Path(path, "text.txt")))


def test_empty_lines(tmp_path):
  path = _file(tmp_path, b"\na\n \n\nb\r\n\n\r\n")
  assert list(lines(path, empty="skip")) == [(2, "a"), (5, "b")]
  assert list(lines(path, empty="keep")) == [(1, ""), (2, "a"), (3, " "), (4, ""), (5, "b"), (6, ""), (7, "")]


def test_broken_lines_may_be_collected(tmp_path):
  broken = []
  assert list(lines(_file(tmp_path, b"a\n\xff\nb\rc\nd\n"), broken=broken)) == [(1, "a"), (4, "d")]
  assert ["line 2" in str(broken[0]), "line 3" in str(broken[1]), len(broken)] == [True, True, 2]


@pytest.mark.parametrize(
  ("path", "message"),
  [
    ("nowhere.csv", r"nowhere\.csv does not exist; expected a file"),
    ("text.txt/below.csv", r"below\.csv does not exist"),
    (".", "is a folder; expected a file"),
    ("x" * 300, "cannot be read: File name too long"),
    ("/dev/zero", "/dev/zero is a device"),
  ],
)
def test_unreadable_files(tmp_path, path, message):
  _file(tmp_path, TEXT)
  with pytest.raises(DataError, match=message):
    list(lines(tmp_path / path))
