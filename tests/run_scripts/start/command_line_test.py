"""run_scripts/command_line.py: a flag that is given again, of each kind and in each way of writing it."""

import pytest
from absl import flags

from bert_flow_tf.errors import ConfigError
from run_scripts import command_line


@pytest.fixture
def parse(monkeypatch):
  """Returns a function from words to (flags, arguments without a flag)."""

  def parsed(words):
    values = flags.FlagValues()
    flags.DEFINE_string("column", None, "", flag_values=values)
    flags.DEFINE_float("threshold", 0.9, "", flag_values=values)
    flags.DEFINE_boolean("normalize", False, "", flag_values=values)
    flags.DEFINE_list("input", ["default"], "", flag_values=values)
    flags.DEFINE_multi_string("query", [], "", flag_values=values)
    flags.DEFINE_integer("level", 0, "", flag_values=values, short_name="l")
    flags.DEFINE_alias("vectors", "input", flag_values=values)
    flags.DEFINE_alias("field", "column", flag_values=values)
    monkeypatch.setattr(command_line, "FLAGS", values)
    return values, command_line.parse(["program", *words])[1:]

  return parsed


@pytest.mark.parametrize(
  ("line", "texts"),
  [
    ("--column=a --column=b", ["--column", "'a'", "'b'"]),
    ("--column a --column b", ["--column", "'a'", "'b'"]),
    ("--column=a -column b", ["--column", "'a'", "'b'"]),
    ("--column=a --input=c --column=a --column=b", ["--column", "'a'", "'b'"]),
    ("--threshold=.5 --threshold=.6", ["--threshold", "'.5'", "'.6'"]),
    ("--normalize --nonormalize", ["--normalize"]),
    ("--normalize --normalize 0", ["--normalize"]),
    ("--column=a --field=b", ["--column", "--field"]),
    ("--field=a --field=b", ["--field", "'a'", "'b'"]),
    ("--level=1 -l 2", ["--level", "'1'", "'2'"]),
    ("--column=a --column=", ["--column", "'a'", "''"]),
  ],
)
def test_two_values_are_an_error(parse, line, texts):
  with pytest.raises(ConfigError) as error:
    parse(line.split())
  assert all(text in str(error.value) for text in texts)


@pytest.mark.parametrize(
  ("line", "name", "value"),
  [
    ("--column=a --column a", "column", "a"),
    ("--threshold=.5 --threshold=0.50", "threshold", 0.5),
    ("--normalize --normalize=1", "normalize", True),
    ("--input=a --input=b,c --input d", "input", ["a", "b", "c", "d"]),
    ("--input=a --vectors=b --vectors=c", "input", ["a", "b", "c"]),
    ("--query=a --query=b", "query", ["a", "b"]),
    ("", "input", ["default"]),
  ],
)
def test_values_of_a_list_are_added_and_equal_values_are_one(parse, line, name, value):
  values, rest = parse(line.split())
  assert values[name].value == value and rest == []


def test_the_command_line_replaces_a_file_of_flags(parse, tmp_path):
  file = tmp_path / "flags"
  file.write_text("--column=a\n--input=a\n--query=a\n--threshold=.5\n--level=3\n")
  line = ["--column=b", "--flagfile", str(file), "x", "--input=b", "--query=b", "--input=c"]
  values, rest = parse(line)
  assert [values[name].value for name in ("column", "input", "query")] == ["b", ["b", "c"], ["b"]]
  assert values.threshold == 0.5 and values["level"].present and rest == ["x"]
  with pytest.raises(ConfigError, match="--column"):
    parse([*line, "--column=c"])
  file.write_text("--column=a\n--column=b\n")
  with pytest.raises(ConfigError, match="--column"):
    parse([f"--flagfile={file}"])
