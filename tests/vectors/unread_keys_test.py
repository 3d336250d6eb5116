"""Keys of numbers and of what a model does not read of texts."""

from bert_flow_tf.vectors.unread_keys import UNKNOWN, unread_keys
from tests.vectors.toy_rows import Hasher


def test_keys_of_a_model():
  texts = ["ab", "abc", "abd", "abc", "?x", "?x", " ", "cd", "abd"]
  keys = unread_keys(Hasher(), texts)
  assert keys[0] == 0 and keys[4] == UNKNOWN and len(set(keys[[0, 1, 2, 7]].tolist())) == 3 and keys[1] == keys[3] > 0
  assert not unread_keys(object(), texts).any()


def test_numbers_are_compared_as_they_are_written():
  different = ["5 mg", ".5 mg", "1,250 kg", "1.250 kg", "3-5 mm", "3:5 mm", "3 5 mm", "- 5 mg", "(5 mg)", "10k", "10m"]
  assert len(set(unread_keys(None, different).tolist())) == len(different)
  equal = ["Order A-12, of 1984.", "(of order a-12) in 1984!", "order a-12; 1984"]
  assert len(set(unread_keys(None, equal).tolist())) == 1 and not unread_keys(None, ["No number."]).any()
  assert len(set(unread_keys(None, ["订单4711已发货", "订单4711\uff0c已发货"]).tolist())) == 1
  assert unread_keys(None, ["a" * 10**6 + "1", "!" * 10**6]).tolist()[1] == 0  # in linear time
