"""The asyncio clients on brokers."""
