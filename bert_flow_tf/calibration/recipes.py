"""Recipes: a pooling, token weights and a calibration that go together, under one name."""

import dataclasses

from bert_flow_tf.encoder.kinds import split_name, without_transformer
from bert_flow_tf.errors import ConfigError


@dataclasses.dataclass(frozen=True)
class Recipe:
  """Settings of an embedding and its calibration; a setting that is given beside the recipe replaces its part."""

  name: str
  help: str
  sentence_embedding_type: str | None  # None for the pooling that the encoder's files declare, or its kind's default
  token_weights: str | None  # None for the default of the encoder's kind
  calibration: str
  stsb_score: float  # Spearman x 100 of mini on STS-B's test split, in docs/results.md
  static: bool = False  # the encoder's word embeddings alone, without its transformer

  def encoder_name(self, name: str) -> str:
    """Returns the name of the encoder to load for an encoder's name or folder.

    Raises:
      ConfigError: the encoder cannot give the recipe's embedding.
    """
    kind, _ = split_name(name)
    if self.sentence_embedding_type is None:
      return name
    if kind.has_only_vectors:
      reason = "has a single embedding; leave recipe out and choose a calibration"
    elif not kind.has_transformer and not self.static:
      reason = "has no transformer; use recipe=fast, or an encoder with a transformer"
    elif self.static and kind.has_transformer:
      return without_transformer(name)
    else:
      return name
    raise ConfigError(f"recipe={self.name}: {name} {reason}", argument="recipe")


# The string match "characters" with the word pieces of mini, on the pairs of `stsb_score`.
STRING_MATCH_SCORE = 70.85

# Shares of mix, exponent of idf and calibrations were chosen with the scores of the sets in docs/results.md; search
# takes the encoder as it is, and loses on none of the four sets in docs/retrieval.md, which are of searches, over 0.5.
RECIPES = {
  recipe.name: recipe
  for recipe in (
    Recipe("paper", "the paper's method", "avg-first-last", None, "flow", 64.85),
    Recipe("recommended", "word embeddings and last block together", "mix", "idf", "soft-whitening", 67.64),
    Recipe("fast", "no transformer", "word-rows", "idf", "soft-whitening", 67.85, static=True),
    Recipe("search", "questions to documents, fit with queries", None, None, "tempered-whitening", 61.48),
  )
}


def help_text() -> str:
  """Returns the purpose, the settings and a score of each recipe, for a flag's help."""
  recipes = []
  for recipe in RECIPES.values():
    pooling = recipe.sentence_embedding_type or "the encoder's pooling"
    settings = [pooling, recipe.token_weights, recipe.calibration]
    recipes.append(f"{recipe.name}: {recipe.help} ({', '.join(filter(None, settings))}), {recipe.stsb_score}")
  scores = f"Spearman x 100 of mini on STS-B, where a string match has {STRING_MATCH_SCORE}"
  return f"{'; '.join(recipes)}: {scores}"


def find_recipe(name: object) -> Recipe:
  """Returns a recipe by its name; raises a ConfigError for another name."""
  if not isinstance(name, str) or name not in RECIPES:
    raise ConfigError(f"recipe={str(name)[:60]}: expected one of {', '.join(RECIPES)}", argument="recipe")
  return RECIPES[name]
