"""Artificial files of SNLI and MNLI in GLUE's layout."""

SNLI = "index\tcaptionID\tsentence1\tsentence2\tlabel1\tgold_label\n"
MNLI = "index\tgenre\tsentence1\tsentence2\tlabel1\tlabel2\tgold_label\n"


def write(root, file, header, labels):
  """Writes a file with a pair per label below `root`; returns its path."""
  path = root / file
  path.parent.mkdir(parents=True, exist_ok=True)
  width = header.count("\t") + 1
  rows = (
    "\t".join([str(i), "-", f"{file} {i}", f'"b {i}', *["x"] * (width - 5), label]) for i, label in enumerate(labels)
  )
  path.write_text(header + "".join(row + "\n" for row in rows))
  return path
