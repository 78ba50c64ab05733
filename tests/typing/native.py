"""The native core satisfies what the driver expects of it. This file is never run."""

from typing import Any

from thalweg import KafkaConsumer, _core
from thalweg.coordinator.driver._native import (
    Cluster,
    ConsumerCore,
    CoreClient,
    Request,
    ResponseBody,
)
from thalweg.coordinator.driver._waits import LongRequest, Work


def consumer_core(consumer: "_core.Consumer[Any, Any]") -> ConsumerCore:
    return consumer


def core_client(client: "_core.Client") -> CoreClient:
    return client


def pending_request(request: "_core.PendingRequest") -> Request[ResponseBody]:
    return request


def cluster_metadata(metadata: "_core.ClusterMetadata") -> Cluster:
    return metadata


def public_consumer(consumer: KafkaConsumer[Any, Any]) -> ConsumerCore:
    return consumer


def work_in_threads(work: Work[int], request: LongRequest[str]) -> list[Request[int | str]]:
    return [work, request]
