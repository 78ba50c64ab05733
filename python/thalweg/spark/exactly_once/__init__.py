"""Exactly-once delivery to Kafka: each task prepares a transaction, and the driver ends them all.

    plan     driver    fences older drivers, and reads the last decision
    write    tasks     send their rows, prepare their transactions, and report them
    commit   driver    checks the transactions ─▶ stores the decision ─▶ commits them ─▶ sweeps

The decision is the only moment that counts. Before it, nothing is visible, and a repeated batch
sends all its rows. After it, a repeated batch sends nothing, and only commits what was decided.

| file | contains |
|---|---|
| `delivery.py` | the options |
| `decisions.py` | a decision, and its form as committed offsets of groups |
| `cluster.py` | the requests to the cluster |
| `driver.py` | the steps of the driver |
| `tasks.py` | the steps of a task |
| `batch_writer.py`, `stream_writer.py` | what Spark calls |
"""
