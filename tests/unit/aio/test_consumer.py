"""AIOKafkaConsumer: what its constructor makes of options, before anything is started."""

import pytest

from thalweg.aio import AIOKafkaConsumer
from thalweg.errors import KafkaConfigurationError


@pytest.mark.parametrize("group_id", [None, "g"])
def test_assignors_are_checked_with_and_without_a_group(group_id):
    with pytest.raises(KafkaConfigurationError, match="has no assignor 'rang'"):
        AIOKafkaConsumer(group_id=group_id, partition_assignment_strategy="rang")
