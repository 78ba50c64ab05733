"""What the driver does for a batch: plan, commit, abort.

| failure | outcome |
|---|---|
| before the decision is stored | the repeated batch sends its rows again |
| while it is stored | the next plan finds it stored, or not |
| after that | the repeated batch sends nothing, and commits the stored transactions |
| an old driver is still active | it cannot store a decision, because the next plan has fenced it |
| a task of an old driver is still active | its transactional ID is not one of the new driver's |
| a transaction expires before the decision | nothing is decided, and the batch fails |
| it expires after the decision | its rows are lost, and the error names them |

Before the decision, only readers with `read_uncommitted` see the rows.
"""

from __future__ import annotations

import logging
import time
import uuid
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from thalweg.admin import TransactionDescription, TransactionState
from thalweg.errors import KafkaError
from thalweg.spark.exactly_once.cluster import FENCED, Cluster, cluster_of, delivery_of
from thalweg.spark.exactly_once.decisions import Attempt, Decision, Driver, Plan
from thalweg.spark.exactly_once.tasks import Report, check_producer
from thalweg.spark.options import SinkOptions
from thalweg.structs import PreparedTransaction

_log = logging.getLogger(__name__)

# The part of a transaction's timeout that must be left for the end of all transactions.
_MARGIN: Final = 0.1
_MARGIN_MAX_MS: Final = 60_000
# Coordinators abort expired transactions every ten seconds by default. If one that has expired is
# open for much longer, the clock of the driver is wrong, and says nothing about the time left.
_CLEANUP_MS: Final = 30_000
# How long the tasks of a failed write may take to stop. No other code aborts what they begin.
_STOPPING_S: Final = 2.0
# How often a batch write tries to commit its transactions. Each try takes `default_api_timeout_ms`.
_TRIES: Final = 3
_COMMITTED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


def plan(options: SinkOptions) -> Plan:
    """Fences older drivers of the query, and reads the last decision.

    Raises:
        KafkaConfigurationError: If the tasks could not create their producers.
        ValueError: If the cluster is too old, or the prefix is used for something else.
        KafkaError: If the brokers refuse, or do not respond in time.
    """
    check_producer(options)
    with cluster_of(options) as cluster:
        driver = cluster.become_driver(delivery_of(options).timeout_ms)
        return Plan(driver, cluster.decision())


def commit_batch(options: SinkOptions, messages: Sequence[Any], batch: int) -> None:
    """Makes the rows of a batch visible, exactly once.

    Args:
        options: The sink's options.
        messages: The reports of all tasks.
        batch: The number of the batch.

    Raises:
        RuntimeError: If a transaction was lost, or if another driver has taken over.
        KafkaError: If the brokers do not respond in time. The repeated batch then continues with
            what is decided.
    """
    reports = [each for each in messages if isinstance(each, Report)]
    if not reports:
        _complete_without_tasks(options, batch)
        return
    attempts = attempts_of(reports)
    is_repeated = any(each.is_repeated for each in reports)
    if not attempts and not is_repeated:
        return  # a batch without rows
    query, driver = reports[0].query, reports[0].driver
    with cluster_of(options) as cluster:
        if is_repeated:
            attempts = decided_before(cluster, options, query, batch)
        else:
            check(cluster, options, attempts, driver)
            driver = decide(cluster, options, driver, Decision(query, batch, attempts))
        end_all(cluster, options, attempts)
        sweep(cluster, options, driver)


def _complete_without_tasks(options: SinkOptions, batch: int) -> None:
    """Commits the stored decision of a repeated batch that has no tasks.

    A driver stores a decision only after all rows of its attempts are written. So this neither
    loses nor adds a row, even if another driver stored the decision.
    """
    with cluster_of(options) as cluster:
        last = cluster.decision()
        if last is not None and last.batch == batch:
            # It aborts nothing: a later run of the query may have open transactions.
            end_all(cluster, options, last.attempts)


def decided_before(
    cluster: Cluster, options: SinkOptions, query: str, batch: int
) -> tuple[Attempt, ...]:
    """Returns the attempts of the last decision, which must be about this batch.

    Raises:
        RuntimeError: If there is another decision, so another driver has taken over.
    """
    last = cluster.decision()
    if last is None or (last.query, last.batch) != (query, batch):
        raise RuntimeError(_taken_over(options))
    return last.attempts


def decide(cluster: Cluster, options: SinkOptions, driver: Driver, decision: Decision) -> Driver:
    """Stores a decision, and returns the driver's identity after it.

    Raises:
        RuntimeError: If another driver has taken over.
    """
    try:
        return cluster.decide(driver, decision)
    except FENCED as error:
        raise RuntimeError(_taken_over(options)) from error


def _taken_over(options: SinkOptions) -> str:
    prefix = delivery_of(options).prefix
    return (
        "This run of the query cannot commit its batch, because another run or another query has"
        f" started with transactional.id.prefix={prefix!r}. If this query runs twice, stop one of"
        " the runs. If it is another query, choose another prefix for it. Then start this query"
        " again. No row is lost or duplicated"
    )


def sweep(cluster: Cluster, options: SinkOptions, driver: Driver | None = None) -> None:
    """Aborts the transactions of failed attempts and of dead drivers, after a commit.

    Args:
        cluster: The cluster.
        options: The sink's options.
        driver: The driver after its decision. None: no other driver has this prefix.
    """
    try:
        found = cluster.open_attempts()
        # A newer driver may have decided to commit transactions that are open now. If there is none
        # at this moment, those found before belong to older drivers, which cannot decide.
        timeout_ms = delivery_of(options).timeout_ms
        if found and (driver is None or cluster.renewed(driver, timeout_ms) is not None):
            cluster.end_all(found, commit=False)
    except KafkaError as error:
        _log.warning(
            "The batch is committed, but the transactions of its failed attempts could not be"
            " aborted. The next batch tries again: %s",
            error,
        )


def abort_batch(options: SinkOptions, messages: Sequence[Any]) -> None:
    """Aborts the transactions of a batch that failed before its decision.

    If no task has reported, it is unknown which run they belong to. They may be those of a newer
    run, so they stay until the next batch of the query is committed, or until they expire.
    """
    delivery = delivery_of(options)
    reports = [each for each in messages if isinstance(each, Report)]
    driver = reports[0].driver if reports else None
    with cluster_of(options) as cluster:
        # Spark stops the other tasks only now. They may just have begun their transactions.
        for pause_s in (0, _STOPPING_S):
            time.sleep(pause_s)
            found = cluster.open_attempts()
            # If a newer driver has planned a batch, the transactions may be those of its tasks.
            # Otherwise no other driver can decide about them from now on, so the last decision is
            # final. It is valid, even if the batch failed after it.
            driver = None if driver is None else cluster.renewed(driver, delivery.timeout_ms)
            if driver is None:
                return
            last = cluster.decision()
            kept = (
                [] if last is None else [each.prepared(delivery.prefix) for each in last.attempts]
            )
            cluster.end_all([each for each in found if each not in kept], commit=False)


def for_one_write(options: SinkOptions) -> SinkOptions:
    """Returns the options of a batch write, whose transactional IDs no other write has.

    Raises:
        KafkaConfigurationError: If the tasks could not create their producers.
        ValueError: If the cluster is too old.
        KafkaError: If the brokers do not respond in time.
    """
    check_producer(options)
    with cluster_of(options):
        pass  # connecting checks the cluster
    delivery = delivery_of(options)
    own = replace(delivery, prefix=f"{delivery.prefix}-{uuid.uuid4().hex}")
    return replace(options, exactly_once=own)


def commit_write(options: SinkOptions, messages: Sequence[Any]) -> None:
    """Commits the transactions of a batch write.

    Raises:
        RuntimeError: If a transaction was lost, or only some of them could be committed. The
            message says which rows are visible.
        KafkaError: If the brokers do not respond in time.
    """
    attempts = reported(messages)
    with cluster_of(options) as cluster:
        check(cluster, options, attempts)
        for tries_left in reversed(range(_TRIES)):
            # Rows of one task may be visible now, so the write continues until all of them are.
            try:
                end_all(cluster, options, attempts)
                break
            except KafkaError as error:
                if not tries_left:
                    raise RuntimeError(_in_part(options)) from error
        sweep(cluster, options)


def _in_part(options: SinkOptions) -> str:
    return (
        "The brokers did not confirm the commit of the write in time. The rows of some tasks may"
        " be visible, and the rows of other tasks not. The driver tries again to commit them, and"
        " logs a warning if it succeeds. In that case, do not repeat the write. Otherwise, look at"
        f" the states of the transactions whose IDs begin with {delivery_of(options).prefix!r}:"
        " they show which tasks are committed"
    )


def abort_write(options: SinkOptions, messages: Sequence[Any]) -> None:
    """Aborts the transactions of a batch write. If some are committed, it commits the others.

    Raises:
        RuntimeError: If one of the others is lost.
        KafkaError: If the brokers do not respond in time. Those that should be committed stay open.
    """
    attempts = reported(messages)
    prefix = delivery_of(options).prefix
    with cluster_of(options) as cluster:
        kept: list[PreparedTransaction] = []
        try:
            if is_partly_committed(cluster, options, attempts):
                kept = [each.prepared(prefix) for each in attempts]
                end_all(cluster, options, attempts)
                _log.warning(
                    "The write is complete, although it has failed before: all of its rows are"
                    " visible. Do not repeat it."
                )
        finally:
            # Spark stops the other tasks only now. They may just have begun their transactions.
            for pause_s in (0, _STOPPING_S):
                time.sleep(pause_s)
                found = cluster.open_attempts()
                cluster.end_all([each for each in found if each not in kept], commit=False)


def is_partly_committed(
    cluster: Cluster, options: SinkOptions, attempts: Sequence[Attempt]
) -> bool:
    """Returns whether a transaction of a batch write is committed."""
    prefix = delivery_of(options).prefix
    found = cluster.describe(each.prepared(prefix).transactional_id for each in attempts)
    return any(each.state in _COMMITTED for each in found.values())


def reported(messages: Iterable[Any]) -> tuple[Attempt, ...]:
    """Returns the attempts of the tasks that have reported, in the order of partitions."""
    return attempts_of(each for each in messages if isinstance(each, Report))


def attempts_of(reports: Iterable[Report]) -> tuple[Attempt, ...]:
    """Returns the attempts that have prepared a transaction, in the order of partitions."""
    found = [each.attempt for each in reports if each.attempt is not None]
    return tuple(sorted(found, key=lambda each: each.partition))


def check(
    cluster: Cluster,
    options: SinkOptions,
    attempts: Sequence[Attempt],
    driver: Driver | None = None,
) -> None:
    """Checks that every transaction is still open, and has time left.

    Raises:
        RuntimeError: If one is not, with the reason. Spark then calls `abort`.
    """
    prefix = delivery_of(options).prefix
    names = [each.prepared(prefix).transactional_id for each in attempts]
    found = cluster.describe(names)
    problems = [
        f"the transaction of task {attempt.partition} {problem}"
        for name, attempt in zip(names, attempts, strict=True)
        if (problem := _problem(found.get(name), attempt)) is not None
    ]
    if problems:
        timeout_ms = delivery_of(options).timeout_ms
        if driver is not None and cluster.renewed(driver, timeout_ms) is None:
            raise RuntimeError(_taken_over(options))  # and has aborted them
        raise RuntimeError(
            f"The batch was not committed: {'; '.join(problems)}. None of its rows is visible, and"
            " the repeated batch sends them again. If this happens often, use smaller batches, or"
            " raise kafka.transaction.timeout.ms and the brokers' transaction.max.timeout.ms"
        )


def _problem(found: TransactionDescription | None, attempt: Attempt) -> str | None:
    if found is None or found.state is not TransactionState.ONGOING:
        return "has expired"
    if (found.producer_id, found.producer_epoch) != (attempt.producer_id, attempt.producer_epoch):
        return "was replaced by another attempt"
    timeout_ms = found.transaction_timeout_ms
    left_ms = found.transaction_start_time_ms + timeout_ms - time.time() * 1000
    if -_CLEANUP_MS < left_ms < min(_MARGIN * timeout_ms, _MARGIN_MAX_MS):
        return "is about to expire"
    return None


def end_all(cluster: Cluster, options: SinkOptions, attempts: Sequence[Attempt]) -> None:
    """Commits decided transactions. Those that are committed already stay so.

    Raises:
        RuntimeError: If one of them is gone. Its rows are lost.
    """
    prepared = [each.prepared(delivery_of(options).prefix) for each in attempts]
    refusals = zip(prepared, cluster.end_all(prepared, commit=True), strict=True)
    lost = [f"{each.transactional_id} ({error})" for each, error in refusals if error is not None]
    if not lost:
        return
    text = (
        f"{len(lost)} of {len(attempts)} transactions of a decided batch expired before the driver"
        f" could commit them, so the rows of these tasks are lost: {', '.join(lost)}"
    )
    if delivery_of(options).skips_lost:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return
    raise RuntimeError(
        f"{text}. To continue without these rows, set delivery.lostTransactions=skip for one run"
    )
