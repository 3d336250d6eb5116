import json

import pytest

from bert_flow_tf import SentenceModel, load_task
from bert_flow_tf.calibration.recipes import RECIPES
from bert_flow_tf.errors import ConfigError
from tests.encoder.tiny import save_tiny
from tests.testing import rejected

# A paraphrase without shared words, and a sentence that has nothing in common with the first.
FIRST, PARAPHRASE, OTHER = (
  "A child feeds the ducks.",
  "A little girl gives bread to the ducks.",
  "The court rejects the appeal.",
)


@pytest.fixture(scope="module")
def pairs():
  return load_task("sample").splits["test"]


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_is_its_settings_by_hand(name, pairs):
  recipe = RECIPES[name]
  model = SentenceModel.from_pretrained("mini", recipe=name)
  encoder = "static:mini" if recipe.static else "mini"
  settings = {"sentence_embedding_type": recipe.sentence_embedding_type, "token_weights": recipe.token_weights}
  by_hand = SentenceModel.from_pretrained(encoder, **settings)
  assert model.identity == by_hand.identity
  if name == "paper":  # its flow takes seconds
    model.fit(list(pairs.sentences_a)[:64], num_train_epochs=1)
  else:
    model.fit(pairs)
    paraphrase, other = model.similarity([FIRST, FIRST], [PARAPHRASE, OTHER])
    # Search is nearer to the uncalibrated cosines: only ranks count.
    assert paraphrase > other + (0.05 if name == "search" else 0.15)
  assert model.calibration_name == recipe.calibration


def test_settings_replace_parts_of_a_recipe(pairs):
  model = SentenceModel.from_pretrained("mini", recipe="recommended", token_weights="idf-1", max_seq_length=32)
  assert model.encoder.token_weights.name == "idf-1"
  assert model.identity.sentence_embedding_type == "mix"
  assert model.max_seq_length == 32
  assert model.fit(list(pairs.sentences_a)[:99], calibration="whitening").calibration_name == "whitening"


def test_search_takes_an_encoder_as_it_is(tmp_path):
  """The recipe replaces no pooling and no weights: those of a folder of sentence-transformers, and static: has idf."""
  save_tiny(tmp_path)
  modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
  modules = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in modules]
  (tmp_path / "modules.json").write_text(json.dumps(modules))
  (tmp_path / "1_Pooling").mkdir()
  (tmp_path / "1_Pooling/config.json").write_text('{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}')
  for name, pooling in ((str(tmp_path), "cls-token"), ("static:mini", "word-rows")):
    model = SentenceModel.from_pretrained(name, recipe="search")
    assert model.identity == SentenceModel.from_pretrained(name).identity
    assert model.pooling.name == pooling
  documents = load_task("sample").splits["test"].sentences_a
  model.fit(documents, queries=[f"Where is it that {text}" for text in documents[:64]])
  assert model.calibration_name == "tempered-whitening" and model.calibration.query_shift is not None


def test_recipes_that_an_encoder_does_not_have():
  with rejected(ConfigError, "recipe"):
    SentenceModel.from_pretrained("mini", recipe="best")
  with rejected(ConfigError, "recipe", match="use recipe=fast"):
    SentenceModel.from_pretrained("static:mini", recipe="recommended")
  with rejected(ConfigError, "recipe"):
    SentenceModel.from_pretrained("saved_model:folder", recipe="fast")
