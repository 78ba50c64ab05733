"""The admin client's requests for transactions (on a fake core)."""

from typing import Any

import pytest

from tests.unit.admin.responses import ZERO, last, metadata, responds
from thalweg.admin.transactions import AbortTransactionSpec, TransactionState
from thalweg.errors import (
    KafkaConnectionError,
    NotCoordinatorError,
    TransactionalIdNotFoundError,
)


def described(name: str, code: int = 0) -> dict[str, Any]:
    return {
        "ErrorCode": code,
        "TransactionalId": name,
        "TransactionState": "Ongoing",
        "TransactionTimeoutMs": 1,
        "TransactionStartTimeMs": 5,
        "ProducerId": 7,
        "ProducerEpoch": 1,
        "Topics": [],
    }


def test_transactions_are_listed_described_and_aborted(admin):
    responds(
        admin,
        Metadata=metadata({ZERO: 2}),
        ListTransactions={
            "ErrorCode": 0,
            "TransactionStates": [
                {"TransactionalId": "x", "ProducerId": 7, "TransactionState": "Ongoing"}
            ],
        },
        DescribeTransactions={
            "TransactionStates": [described("x") | {"Topics": [{"Topic": "t", "Partitions": [0]}]}]
        },
        FindCoordinator={"Coordinators": [{"NodeId": 2, "Key": "x", "ErrorCode": 0}]},
        DescribeProducers={
            "Topics": [
                {
                    "Name": "t",
                    "Partitions": [
                        {
                            "PartitionIndex": 0,
                            "ErrorCode": 0,
                            "ErrorMessage": None,
                            "ActiveProducers": [
                                {
                                    "ProducerId": 7,
                                    "ProducerEpoch": 1,
                                    "LastSequence": 3,
                                    "LastTimestamp": 4,
                                    "CoordinatorEpoch": 0,
                                    "CurrentTxnStartOffset": 9,
                                }
                            ],
                        }
                    ],
                }
            ]
        },
        WriteTxnMarkers={
            "Markers": [{"Topics": [{"Partitions": [{"PartitionIndex": 0, "ErrorCode": 0}]}]}]
        },
    )
    listing = admin.list_transactions(broker_ids=[1], state_filters=["ongoing"])[1][0]
    assert (listing.transactional_id, listing.state) == ("x", TransactionState.ONGOING)
    assert last(admin)[1]["StateFilters"] == ["Ongoing"]
    description = admin.describe_transactions(["x"])["x"]
    assert description.coordinator_id == 2
    assert description.topic_partitions == {ZERO}
    hanging = admin.find_hanging_transactions([1])
    assert hanging[0]["transactional_id"] == "x"
    state = admin.describe_producers([ZERO])[ZERO].active_producers[0]
    assert (state.producer_id, state.current_transaction_start_offset) == (7, 9)
    admin.abort_transaction(AbortTransactionSpec(ZERO, 7, 1))
    api, body, node = last(admin)
    assert (api, node) == ("WriteTxnMarkers", 2)
    assert body["Markers"][0]["CoordinatorEpoch"] == -1


def test_each_coordinator_gets_one_request_until_it_has_moved(admin):
    homes = {"a": [1, 1], "b": [2, 1], "c": [1, 1], "unknown": [2, 2]}

    def lookup(body: dict[str, Any]) -> dict[str, Any]:
        names = body["CoordinatorKeys"]
        rows = [{"NodeId": homes[name].pop(0), "Key": name, "ErrorCode": 0} for name in names]
        return {"Coordinators": rows}

    codes = {"b": [16, 0], "unknown": [105]}  # NOT_COORDINATOR, TRANSACTIONAL_ID_NOT_FOUND

    def describe(body: dict[str, Any]) -> dict[str, Any]:
        names = body["TransactionalIds"]
        rows = [described(name, codes.get(name, [0]).pop(0)) for name in names]
        return {"TransactionStates": rows}

    responds(admin, FindCoordinator=lookup, DescribeTransactions=describe)
    found, refused = admin._described_transactions(["a", "b", "c", "b", "unknown"])
    asked = [body["TransactionalIds"] for api, body, _ in admin._client.requests if "Desc" in api]
    assert asked == [["a", "c"], ["b", "unknown"], ["b"]]
    assert {name: row.coordinator_id for name, row in found.items()} == {"a": 1, "b": 1, "c": 1}
    assert [(name, type(error)) for name, error in refused.items()] == [
        ("unknown", TransactionalIdNotFoundError)
    ]


def test_a_coordinator_that_does_not_respond_in_time_is_an_error_with_the_name(admin):
    responds(
        admin,
        FindCoordinator={"Coordinators": [{"NodeId": 2, "Key": "x", "ErrorCode": 0}]},
        DescribeTransactions={"TransactionStates": [described("x", 16)]},
    )
    with pytest.raises(NotCoordinatorError, match="transactional id 'x'"):
        admin.describe_transactions(["x"])


def test_a_transaction_that_is_forgotten_meanwhile_does_not_hide_the_hanging_ones(admin):
    rows = [
        {"TransactionalId": name, "ProducerId": 7, "TransactionState": "Ongoing"}
        for name in ("gone", "x")
    ]
    responds(
        admin,
        ListTransactions={"ErrorCode": 0, "TransactionStates": rows},
        FindCoordinator=lambda body: {
            "Coordinators": [
                {"NodeId": 2, "Key": name, "ErrorCode": 0} for name in body["CoordinatorKeys"]
            ]
        },
        DescribeTransactions={"TransactionStates": [described("gone", 105), described("x")]},
    )
    found = admin.find_hanging_transactions([1])
    assert [row["transactional_id"] for row in found] == ["x"]


@pytest.mark.parametrize("call", ["describe_producers", "abort_transaction"])
def test_a_leader_that_moved_is_found_again(admin, call):
    def rows(code: int) -> list[dict[str, Any]]:
        row: dict[str, Any] = {
            "PartitionIndex": 0,
            "ErrorCode": code,
            "ErrorMessage": None,
            "ActiveProducers": [],
        }
        return [{"Name": "t", "Partitions": [row]}]

    responds(
        admin,
        Metadata=[metadata({ZERO: 1}), metadata({ZERO: 2})],
        DescribeProducers=[{"Topics": rows(6)}, {"Topics": rows(0)}],
        WriteTxnMarkers=[{"Markers": [{"Topics": rows(6)}]}, {"Markers": [{"Topics": rows(0)}]}],
    )
    if call == "describe_producers":
        assert admin.describe_producers([ZERO])[ZERO].active_producers == []
    else:
        admin.abort_transaction(AbortTransactionSpec(ZERO, 7, 1))
    assert last(admin)[2] == 2


def test_a_marker_that_may_be_written_is_not_written_again(admin):
    responds(admin, Metadata=metadata({ZERO: 1}), WriteTxnMarkers=KafkaConnectionError("closed"))
    with pytest.raises(KafkaConnectionError, match="closed"):
        admin.abort_transaction(AbortTransactionSpec(ZERO, 7, 1))
    assert [api for api, _, _ in admin._client.requests].count("WriteTxnMarkers") == 1
