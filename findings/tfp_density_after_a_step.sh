#!/usr/bin/env bash
# Guess: TransformedDistribution.log_prob reads the scale of its bijector anew: after a step of training it is the new density.
# Truth: in eager mode a bijector keeps results by the tensor that it got. For a tensor that it has seen, the new latents
#        are joined with the old log-determinant, which is the density of neither scale, and its gradient lacks a term:
#        training on a kept batch passes the optimum. A copy of the tensor, a new bijector or tf.function is right.
# Why it matters: a normalizing flow is fitted by this number, and texts are scored by it.
# Versions: TFP 0.25.0, TensorFlow 2.21.0, tf-keras 2.21.0, on a CPU. Seen on 2026-11-28.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check tensorflow-probability==0.25.0 tensorflow==2.21.0 tf-keras==2.21.0

venv/bin/python 2> log.txt > seen.txt << 'END' || { cat log.txt >&2; exit 1; }
import tensorflow as tf
import tensorflow_probability as tfp

bijectors, distributions = tfp.bijectors, tfp.distributions
print("TFP", tfp.__version__)
scale = tf.Variable(1.0)
flow = distributions.TransformedDistribution(distributions.Normal(0.0, 1.0), bijectors.Scale(scale))
batch = tf.constant(4.0)
print(f"scale 1: {flow.log_prob(batch):.3f}")
scale.assign(4.0)
truth = distributions.Normal(0.0, 4.0).log_prob(4.0)
print(f"scale 4: {flow.log_prob(batch):.3f}, of a copy {flow.log_prob(tf.identity(batch)):.3f}, the truth {truth:.3f}")
for name in ("one tensor", "copies of it"):
  scale.assign(1.0)
  for _ in range(500):
    values = batch if name == "one tensor" else tf.identity(batch)
    with tf.GradientTape() as tape:
      loss = -flow.log_prob(values)
    scale.assign_sub(0.1 * tape.gradient(loss, scale))
  print(f"500 steps on {name}: scale {scale.numpy():.1f}")
END
cat seen.txt

diff - seen.txt << 'END' || { echo "tfp_density_after_a_step.sh: the behavior has changed: < seen on 2026-11-28, > seen now" >&2; exit 1; }
TFP 0.25.0
scale 1: -8.919
scale 4: -1.419, of a copy -2.805, the truth -2.805
500 steps on one tensor: scale 7.6
500 steps on copies of it: scale 4.0
END
