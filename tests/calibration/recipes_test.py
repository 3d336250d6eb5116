import pytest

from bert_flow_tf import SentenceModel, load_task
from bert_flow_tf.calibration.recipes import RECIPES
from bert_flow_tf.errors import ConfigError
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
    assert paraphrase > other + 0.15
  assert model.calibration_name == recipe.calibration


def test_settings_replace_parts_of_a_recipe(pairs):
  model = SentenceModel.from_pretrained("mini", recipe="recommended", token_weights="idf-1", max_seq_length=32)
  assert model.encoder.token_weights.name == "idf-1"
  assert model.identity.sentence_embedding_type == "mix"
  assert model.max_seq_length == 32
  assert model.fit(list(pairs.sentences_a)[:99], calibration="whitening").calibration_name == "whitening"


def test_recipes_that_an_encoder_does_not_have():
  with rejected(ConfigError, "recipe"):
    SentenceModel.from_pretrained("mini", recipe="best")
  with rejected(ConfigError, "recipe", match="use recipe=fast"):
    SentenceModel.from_pretrained("static:mini", recipe="recommended")
  with rejected(ConfigError, "recipe"):
    SentenceModel.from_pretrained("saved_model:folder", recipe="fast")
