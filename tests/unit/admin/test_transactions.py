"""The admin client's requests for transactions (on a fake core)."""

from tests.unit.admin.answers import ZERO, answers, last, metadata
from thalweg.admin.transactions import AbortTransactionSpec, TransactionState


def test_transactions_are_listed_described_and_aborted(admin):
    answers(
        admin,
        Metadata=metadata({ZERO: 2}),
        ListTransactions={
            "ErrorCode": 0,
            "TransactionStates": [
                {"TransactionalId": "x", "ProducerId": 7, "TransactionState": "Ongoing"}
            ],
        },
        DescribeTransactions={
            "TransactionStates": [
                {
                    "ErrorCode": 0,
                    "TransactionalId": "x",
                    "TransactionState": "Ongoing",
                    "TransactionTimeoutMs": 1,
                    "TransactionStartTimeMs": 5,
                    "ProducerId": 7,
                    "ProducerEpoch": 1,
                    "Topics": [{"Topic": "t", "Partitions": [0]}],
                }
            ]
        },
        FindCoordinator={"Coordinators": [{"NodeId": 2, "Key": "x"}]},
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
