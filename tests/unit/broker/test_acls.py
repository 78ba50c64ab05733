"""ACLs of EmbeddedBroker: which arguments they take."""

import pytest

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture
def broker(fake):
    return fake.broker.EmbeddedBroker(authorizer=True, super_users=["admin", "User:CN=root"])


def test_an_authorizer_is_kafkas_option(fake, broker):
    assert broker._native.args[3] == {
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin;User:CN=root",
    }
    assert fake.broker.EmbeddedBroker()._native.args[3] == {}


@pytest.mark.parametrize(
    "call, expected",
    [
        (
            lambda broker: broker.allow("alice", "read", topic="t"),
            ("TOPIC", "LITERAL", "t", "User:alice", "*", "READ", "ALLOW"),
        ),
        (
            lambda broker: broker.deny("User:*", "ALL", group="g", prefixed=True),
            ("GROUP", "PREFIXED", "g", "User:*", "*", "ALL", "DENY"),
        ),
        (
            lambda broker: broker.allow("*", "WRITE", transactional_id="id", host="10.0.0.1"),
            ("TRANSACTIONAL_ID", "LITERAL", "id", "User:*", "10.0.0.1", "WRITE", "ALLOW"),
        ),
        (
            lambda broker: broker.allow("alice", "CREATE", cluster=True),
            ("CLUSTER", "LITERAL", "kafka-cluster", "User:alice", "*", "CREATE", "ALLOW"),
        ),
    ],
)
def test_rules_reach_the_core_in_kafkas_words(broker, call, expected):
    call(broker)
    assert broker._native.calls == [("create_acl", *expected)]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda broker: broker.allow("a", "READ"), ValueError, "give exactly one of topic, group"),
        (lambda broker: broker.allow("a", "READ", topic="t", group="g"), ValueError, "exactly"),
        (lambda broker: broker.allow("a", "RAED", topic="t"), ValueError, "did you mean 'READ'"),
        (lambda broker: broker.allow("a", 3, topic="t"), TypeError, "operation must be a str"),
        (lambda broker: broker.allow("a", "READ", topic=3), TypeError, "topic must be a str"),
        (lambda broker: broker.allow("a", "READ", topic=""), ValueError, "topic must not be"),
        (lambda broker: broker.allow("", "READ", topic="t"), ValueError, "user must not be empty"),
        (lambda broker: broker.deny(None, "READ", topic="t"), TypeError, "user must be a str"),
    ],
)
def test_wrong_rules_are_named(broker, call, error, words):
    with pytest.raises(error) as caught:
        call(broker)
    assert words in str(caught.value)
    assert broker._native.calls == []


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"super_users": ["a"]}, ValueError, "no effect without authorizer=True"),
        ({"authorizer": True, "super_users": "alice"}, TypeError, "must be a list"),
        ({"authorizer": True, "super_users": [1]}, TypeError, "super_users must be a str"),
        ({"authorizer": True, "super_users": ["a;b"]}, ValueError, "semicolon"),
    ],
)
def test_wrong_super_users_are_named(fake, options, error, words):
    with pytest.raises(error, match=words):
        fake.broker.EmbeddedBroker(**options)
