"""The flow in float64 NumPy, written from the method's equations and not from `bert_flow_tf`.

Weights are a dict {name in the original's checkpoint: array}, as in the golden files. Every function takes the
configuration as a dict in the original's keys. Gradients are central differences: nothing here knows autodiff.
"""

import numpy as np

CONSTANT = ("invertible/w", "invertible/P", "invertible/sign_S")


def trainable(weights):
  """Names of the weights that the optimizer moves."""
  return [name for name in weights if not name.endswith(CONSTANT)]


def float64(weights):
  return {name: np.asarray(array, np.float64) for name, array in weights.items()}


def forward(config, weights, u):
  """Latents [batch, dim] and log|det dz/du| [batch] of embeddings u [batch, dim]."""
  return _Flow(config, weights).forward(np.asarray(u, np.float64))


def initialize(config, weights, u):
  """Returns the weights after data-dependent initialization from u [batch, dim]."""
  flow = _Flow(config, weights)
  flow.initializing = True
  flow.forward(np.asarray(u, np.float64))
  return flow.weights


def bits_per_dim(config, weights, u):
  """Returns -log2 p(u) / dim, [batch], of a standard normal base."""
  z, log_det = forward(config, weights, u)
  nats = 0.5 * np.sum(z**2, axis=1) + 0.5 * z.shape[1] * np.log(2 * np.pi) - log_det
  return nats / (z.shape[1] * np.log(2))


def gradient(function, weights, h=1e-6):
  """Returns d function(weights) / d weight for every trainable weight, by central differences."""
  found = {}
  for name in trainable(weights):
    found[name] = np.zeros_like(weights[name])
    for index in np.ndindex(weights[name].shape):
      sides = []
      for step in (h, -h):
        moved = weights[name].copy()
        moved[index] += step
        sides.append(function({**weights, name: moved}))
      found[name][index] = (sides[0] - sides[1]) / (2 * h)
  return found


class AdamWeightDecay:
  """Clips to a global norm; m, v without bias correction; update m / (sqrt(v) + 1e-6) + decay w, times the rate.

  `decayed` are the names of the weights that decay; None for all.
  """

  def __init__(self, learning_rate, decay=0.01, clip=1.0, decayed=None):
    self.learning_rate, self.decay, self.clip, self.decayed = learning_rate, decay, clip, decayed
    self.m, self.v = {}, {}

  def step(self, weights, gradients):
    """Returns the weights after one step."""
    norm = np.sqrt(sum(np.sum(g**2) for g in gradients.values()))
    moved = dict(weights)
    for name, g in gradients.items():
      g = g * self.clip / max(norm, self.clip)
      self.m[name] = 0.9 * self.m.get(name, 0.0) + 0.1 * g
      self.v[name] = 0.999 * self.v.get(name, 0.0) + 0.001 * g**2
      update = self.m[name] / (np.sqrt(self.v[name]) + 1e-6)
      if self.decayed is None or name in self.decayed:
        update = update + self.decay * weights[name]
      moved[name] = weights[name] - self.learning_rate * update
    return moved


class _Flow:
  def __init__(self, config, weights):
    self.config = config
    self.weights = dict(weights)
    self.initializing = False

  def forward(self, x):
    log_det = np.zeros(len(x))
    left = []
    for level in range(self.config["n_levels"]):
      if level:
        half = x.shape[1] // 2
        left.append(x[:, half:])
        x = x[:, :half]
      for step in range(self.config["depth"]):
        scope = f"revnet_{level}/revnet_step_{step}"
        x, by_actnorm = self._actnorm(f"{scope}/actnorm", x)
        w = self._mixing(scope)
        x, by_mixing = x @ w, 0.0 if self.config["permutation"] else np.linalg.slogdet(w)[1]
        x, by_coupling = self._coupling(scope, x)
        log_det += by_actnorm + by_mixing + by_coupling
    return np.concatenate([*left, x], axis=1), log_det

  def _center_and_scale(self, scope):
    return [self.weights[f"{scope}/{name}"].reshape(-1) for name in ("actnorm_center/b", "actnorm_scale/logs")]

  def _actnorm(self, scope, x):
    if self.initializing:
      mean = x.mean(axis=0)
      logs = np.log(1 / (np.sqrt(((x - mean) ** 2).mean(axis=0)) + 1e-6)) / 3
      self.weights[f"{scope}/actnorm_center/b"] = -mean.reshape(1, 1, 1, -1)
      self.weights[f"{scope}/actnorm_scale/logs"] = logs.reshape(1, 1, 1, -1)
    b, logs = self._center_and_scale(scope)
    return (x + b) * np.exp(3 * logs), 3 * np.sum(logs)

  def _mixing(self, scope):
    if self.config["permutation"]:
      return self.weights[f"{scope}/invertible/w"]
    p, lower, upper, sign, log = (
      self.weights[f"{scope}/invertible/{name}"] for name in ("P", "L", "U", "sign_S", "log_S")
    )
    return p @ (np.tril(lower, -1) + np.eye(len(p))) @ (np.triu(upper, 1) + np.diag(sign * np.exp(log)))

  def _coupling(self, scope, x):
    first, second = np.split(x, 2, axis=1)
    shift, scale = self._shift_and_scale(scope, first)
    log_det = np.sum(np.log(scale) * np.ones_like(second), axis=1)
    return np.concatenate([first, (second + shift) * scale], axis=1), log_det

  def _shift_and_scale(self, scope, first):
    if self.config["coupling"] == "additive":
      return self._network(f"{scope}/additive/nn", first), np.ones([1, 1])
    outputs = self._network(f"{scope}/affine/nn", first)
    return outputs[:, ::2], _sigmoid(outputs[:, 1::2] + 2)

  def _network(self, scope, x):
    x = np.maximum(self._hidden(f"{scope}/conv_block/1_1", x), 0)
    if self.config["activation"] == "relu":
      x = np.maximum(self._hidden(f"{scope}/conv_block/1_2", x), 0)
    else:
      x = np.tanh(self._hidden(f"{scope}/conv_block/1_tanh", x)) * _sigmoid(
        self._hidden(f"{scope}/conv_block/1_sigm", x)
      )
    w, b, logs = (self.weights[f"{scope}/zeros/{name}"] for name in ("W", "b", "logs"))
    return (x @ w[0, 0] + b[0, 0]) * np.exp(3 * logs)

  def _hidden(self, scope, x):
    return self._actnorm(f"{scope}/actnorm", x @ self.weights[f"{scope}/W"][0, 0])[0]


def _sigmoid(x):
  return 1 / (1 + np.exp(-x))
