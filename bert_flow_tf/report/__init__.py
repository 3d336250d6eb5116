"""Report of a run: the files of its folder, and the page that is drawn from them. No TensorFlow here.

Files in reading order:

    result_files      results.json, eval_results.txt and tables of pairs
    spectra           the shape of embeddings, for drawings
    record            what a run's folder has of its tasks, written and read
    sentences         results in words
    page, page.html   report.html, the page of a run
"""

__all__ = ["page", "record", "result_files", "sentences", "spectra"]
