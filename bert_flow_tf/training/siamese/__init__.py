"""Fine-tuning of an encoder on labeled pairs, two sentences through one encoder, as the published runner does it.

Files in reading order:

    settings        SiameseSettings and SiameseEmbedding: flags of the published runner
    labeled_pairs   LabeledPairs: batches of ids of both sentences, and labels
    objectives      Classifier, and the losses of classes and cosines
    losses          SiameseLosses: a step's loss, of the objective and of a flow
    trainer         SiameseTrainer: steps, checkpoints, evaluation
    early_stopping  the weights that are best on dev
"""

__all__ = ["early_stopping", "labeled_pairs", "losses", "objectives", "settings", "trainer"]
