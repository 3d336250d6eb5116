"""Tables: the paper's tables and figures with our encoders, next to the published numbers, and tables beyond them.

`registry.TABLES` has a row for each table: a new one is a row there, and a `ScoreTable` or a function that makes it.
`run.make` makes the tables of a `Plan`, and stores each score, so that a stopped run resumes. The modules import
TensorFlow as late as they can.

Files in reading order:

    plan         Plan: tables, figures, encoders and corpora of a run, checked before anything is loaded
    registry     every table and figure: its function, encoders, tasks and arguments
    run          makes the tables of a plan and writes them
    recipe       RowRecipe: embedding, calibration and corpus of a row
    request      what a maker of a table reads and returns
    kinds        kinds of encoders, known from their names
    inputs       tasks, corpora and encoders of a run
    workbench    Workbench: scores of one encoder by recipe, each computed once
    scores       ScoreTable: the maker of tables whose rows are recipes; cells of a recipe
    similarity   Tables 2, 3, 4, 5, 8 and transfer
    beyond       tables beyond, gains and ablation
    choice       table choice: settings that are chosen on the other sets
    analysis     Tables 1 and 6, isotropy, and the data of the figures
    word_ranks   ranks of words by frequency, for Table 1
    table        Table: rows and notes as Markdown and JSON, terms, and the paper's tables (paper_tables.json)
    figures      Figure 2 and the cone, drawn
"""

from bert_flow_tf.tables.plan import Plan

__all__ = ["Plan"]
