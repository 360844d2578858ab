"""Other job queues under the same work, on the same durability: `python -m bench.peers`.

Each lives in a virtual environment of its own, made on demand below .bench/peers, and each is a module here that runs
inside of it: nothing of theirs is ever imported by the rest.
"""
