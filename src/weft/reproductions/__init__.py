"""The papers' figures and tables, made again: the paper's number beside ours."""
