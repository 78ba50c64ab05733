"""Small programs, one for each client, that produce files of records or consume a topic into one.

    P="python -m tests.support.clients.confluent"
    $P produce --bootstrap HOST:PORT --topic T --produce lz4 F --produce none G
    $P consume --bootstrap HOST:PORT --topic T --file F --count N

Each runs in its own process, in the environment where its client is installed.
"""
