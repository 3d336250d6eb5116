"""The command `bert-flow` as `python -m bert_flow_tf`."""

from run_scripts.bert_flow import main

if __name__ == "__main__":
  main()
