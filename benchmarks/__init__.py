"""Measurements of mblob beside `cp`, Apache TVM, assemblers, linkers and numpy: `python -m
benchmarks` (`make bench`).

Who imports whom, from the ground up: results <- sampling <- inputs <- one module per subject <-
__main__. `worker` and the `worker_*` programs run in processes of their own and import nothing of
the rest. `report` and `plots` turn results into RESULTS.md and its pictures.
"""
