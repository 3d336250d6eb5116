"""Terms of the tables, defined once: at the head of the results page, and below a table that stands alone."""

# {term: meaning}. Below a table, a note is "term: meaning"; the page leaves such notes out.
TERMS = {
  "avg": "embedding: mean of the last block's token vectors",
  "avg-first-last": "embedding: mean of the first and the last block's; the paper's last2avg",
  "word-rows": "embedding: mean of the rows of the word-embedding matrix, each divided by its length",
  "static": "word-rows of an encoder without its transformer",
  "mix": "embedding: word-rows and avg as two views of a sentence, with shares 0.6 and 0.4; mix-S: S and 1 - S",
  "idf": "token weights: the logarithm of inverse document frequency to the power 0.75; idf-1: to the power 1",
  "flow": "calibration of the paper: an invertible network that makes the embeddings standard normal",
  "whitening": "calibration: the embeddings get mean 0 and the identity as covariance",
  "soft-whitening": "whitening that keeps directions of little variance small; soft-whitening-K divides by variance^K",
  "flow+soft-whitening": "both side by side; the cosine is the mean of the two",
  "sn": "calibration: each dimension gets mean 0 and variance 1",
  "natsv-K": "calibration: removes the K leading singular vectors",
  "auto": "calibration: whitening, soft-whitening or soft-whitening-0.2, chosen without labels",
  "recipe": "mix, idf and soft-whitening, the combination that `docs/calibrations.md` recommends",
  "(target)": "fitted on all sentences of the evaluated set, without gold scores",
  "(all sets)": "fitted once, on the sentences of the seven sets STS-B to STS-16, without gold scores",
  "NLI": "the sentences of SNLI and MNLI",
  "Spearman x 100": "rank correlation of the cosines of the pairs with their gold scores",
  "STS-12 to STS-16": "mean over the subsets, weighted by their numbers of pairs, as in the paper",
  "AUC x 100": "area under the ROC curve of the cosines, for two labels",
  "±": "standard deviation over the seeds of the flow",
  "[low, high]": "95 % interval of a paired bootstrap over the pairs, of the mean over the seeds",
  "▲, ▼": "in Gains: the interval is wholly above, below 0; in Beyond and Transfer ▼: lower than without calibration",
  "(paper x, y)": "the paper's score, and ours minus the paper's, if the encoder is the paper's",
  "n/a [1]": "no score; the note with the number says why",
}


def note(term: str) -> str:
  """Returns a note below a table that defines a term."""
  return f"{term}: {TERMS[term]}."


def is_defined(text: str) -> bool:
  """Returns whether a note defines a term of the head."""
  return text.partition(": ")[0] in TERMS
