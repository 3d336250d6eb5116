"""SavedModels from strings to vectors, as other programs write them: TensorFlow 2, Keras, TensorFlow 1."""

import pathlib

import numpy as np
import tensorflow as tf

from bert_flow_tf.flow.keras import IS_KERAS_3, keras

WORDS = ["a", "man", "is", "eating", "no", "dog", "plays", "the", "guitar", "woman"]


def rows(dim, seed=0):
  """Returns the vector of each word, the last one for unknown words, float32 [words + 1, dim]."""
  return np.random.default_rng(seed).normal(size=[len(WORDS) + 1, dim]).astype(np.float32)


def expected(texts, dim, seed=0):
  """Returns sums of the vectors of the words of texts between spaces, in lower case, in NumPy."""
  vectors = rows(dim, seed)
  embeddings = np.zeros([len(texts), dim], np.float32)
  for row, text in enumerate(texts):
    for word in text.lower().split():
      embeddings[row] += vectors[WORDS.index(word) if word in WORDS else -1]
  return embeddings


def table_of(path):
  """Returns a table of the words of a file, and its initializer."""
  columns = tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
  initializer = tf.lookup.TextFileInitializer(path, tf.string, *columns)
  return tf.lookup.StaticHashTable(initializer, len(WORDS)), initializer


class WordSums(tf.Module):
  """Sums of vectors of words, with the words in an asset."""

  def __init__(self, folder, dim, seed=0):
    super().__init__()
    path = pathlib.Path(folder, f"words_{seed}.txt")
    path.write_text("\n".join(WORDS), encoding="utf-8")
    self.asset = tf.saved_model.Asset(str(path))
    self.table, _ = table_of(self.asset)
    self.rows = tf.Variable(rows(dim, seed))

  @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
  def embed(self, texts):
    """Returns float32 [n, dim]."""
    words = tf.strings.split(tf.strings.lower(texts))
    ids = tf.ragged.map_flat_values(self.table.lookup, words)
    return tf.reduce_sum(tf.ragged.map_flat_values(tf.gather, self.rows, ids), axis=1)


def sentences():
  """Returns 300 different sentences of the words."""
  rng = np.random.default_rng(0)
  drawn = {" ".join(rng.choice([*WORDS, "unknown"], rng.integers(3, 9))) for _ in range(400)}
  return sorted(drawn)[:300]


def parse_examples(examples):
  """Returns a feature of serialized tf.Examples, as estimators' SavedModels take them."""
  return tf.io.parse_example(examples, {"v": tf.io.FixedLenFeature([3], tf.float32)})["v"]


def write_keras(folder, dim=6, shape=()):
  """Writes a Keras model on texts [n] or [n, 1]."""
  vectors = rows(dim)
  matrix = np.concatenate([np.zeros_like(vectors[:1]), vectors[-1:], vectors[:-1]])  # padding, unknown words, words
  inputs = keras.Input(shape, dtype="string")
  ids = keras.layers.TextVectorization(standardize="lower", vocabulary=WORDS)(inputs)
  words = keras.layers.Embedding(len(matrix), dim, embeddings_initializer=keras.initializers.Constant(matrix))(ids)
  total = keras.layers.Lambda(lambda rows: tf.reduce_sum(rows, axis=1), output_shape=(dim,))(words)
  model = keras.Model(inputs, keras.layers.Dropout(0.5)(total))
  if IS_KERAS_3:
    model.export(str(folder), verbose=False)
  else:
    model.save(str(folder), save_format="tf")
  return folder


def write_callable(folder, dim=6, seed=0):
  """Writes a module that is called on texts, with a table and an asset."""
  module = WordSums(folder.parent, dim, seed)
  module.__call__ = module.embed
  tf.saved_model.save(module, str(folder))
  return folder


def write_signatures(folder, dim=6, **outputs):
  """Writes a module without a call, whose signatures give dicts; `outputs` are {signature: names of outputs}."""
  module = WordSums(folder.parent, dim)
  functions = {}
  for signature, names in outputs.items():

    def call(texts, names=names):
      vectors = module.embed(texts)
      return {name: vectors * (number + 1) for number, name in enumerate(names)}

    functions[signature] = tf.function(call, [tf.TensorSpec([None], tf.string, "texts")])
  tf.saved_model.save(module, str(folder), signatures=functions)
  return folder


def write_function(folder, function, spec=None):
  """Writes a function as the only signature; `spec`: its input, by default texts [n]."""
  module = tf.Module()
  module.call = tf.function(function, [spec or tf.TensorSpec([None], tf.string)])
  tf.saved_model.save(module, str(folder), signatures=module.call)
  return folder


def write_tf1(folder):
  """Writes a SavedModel of TensorFlow 1."""
  builder = tf.compat.v1.saved_model.Builder(str(folder))
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    texts = tf.compat.v1.placeholder(tf.string, [None])
    vectors = tf.cast(tf.strings.length(texts)[:, tf.newaxis], tf.float32)
    signature = tf.compat.v1.saved_model.predict_signature_def({"text": texts}, {"default": vectors})
    builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
  builder.save()
  return folder
