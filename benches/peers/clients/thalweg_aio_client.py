"""thalweg.aio: the same program as aiokafka's, record by record."""

from __future__ import annotations

import asyncio
from typing import Any

from benches.peers.clients.asyncio_program import latency, produce
from benches.peers.clients.program import main
from benches.peers.equal import producer_options
from benches.peers.settings import Case
from thalweg.aio import AIOKafkaProducer


async def producer_of(case: Case) -> Any:
    options = producer_options("thalweg-aio", case)
    producer: Any = AIOKafkaProducer(bootstrap_servers=case.bootstrap, **options)
    await producer.start()
    return producer


if __name__ == "__main__":
    main(
        produce=lambda case: asyncio.run(produce(producer_of, case)),
        latency=lambda case: asyncio.run(latency(producer_of, case)),
    )
