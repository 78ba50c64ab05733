"""The admin client's requests for options of topics and brokers (on a fake core)."""

from typing import Any

import pytest

from tests.unit.admin.responses import last, responds
from thalweg import Secret
from thalweg.admin.configs import AlterConfigOp, ConfigResource, ConfigResourceType
from thalweg.errors import IncompatibleBrokerVersion


def described(*entries: tuple[str, str | None, int, bool]) -> dict[str, Any]:
    """Makes a DescribeConfigs response: (name, value, source, read only)."""
    return {
        "Results": [
            {
                "ErrorCode": 0,
                "ErrorMessage": None,
                "ResourceType": 2,
                "ResourceName": "t",
                "Configs": [
                    {
                        "Name": name,
                        "Value": value,
                        "ReadOnly": read_only,
                        "ConfigSource": source,
                        "IsSensitive": False,
                        "Synonyms": [{"Name": name, "Value": "1", "Source": 5}],
                        "ConfigType": 5,
                    }
                    for name, value, source, read_only in entries
                ],
            }
        ]
    }


ENTRIES = described(("set", "1", 1, False), ("default", "2", 5, False), ("fixed", "3", 4, True))
OF_ALL_BROKERS = described(("cluster-wide", "1", 3, False))


@pytest.mark.parametrize(
    "config_filter, names",
    [
        ("modified", {"set"}),
        ("dynamic", {"set", "default"}),
        ("all", {"set", "default", "fixed"}),
        ("default", {"default", "fixed"}),
        ("static", {"fixed"}),
    ],
)
def test_options_are_described_and_filtered(admin, config_filter, names):
    responds(admin, DescribeConfigs=ENTRIES)
    found = admin.describe_configs([ConfigResource("topic", "t")], config_filter=config_filter)
    assert set(found["topic"]["t"]) == names
    entry = next(iter(found["topic"]["t"].values()))
    assert entry["config_type"] == "LONG"
    assert entry["synonyms"][0]["source"] == "DEFAULT_CONFIG"


def test_what_is_set_for_the_whole_cluster_is_not_the_resources_own(admin):
    responds(admin, DescribeConfigs=OF_ALL_BROKERS)
    assert admin.describe_configs([ConfigResource("topic", "t")]) == {"topic": {"t": {}}}


def test_brokers_options_are_asked_of_that_broker(admin):
    responds(admin, DescribeConfigs=described())
    for name in ("2", 2):
        admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, name)])
        assert last(admin)[1]["Resources"][0]["ResourceName"] == "2"
        assert last(admin)[2] == 2
    with pytest.raises(ValueError, match="must be its node ID"):
        admin.describe_configs([ConfigResource("BROKER", "second")])


def altered(code: int = 0) -> dict[str, Any]:
    row = {"ErrorCode": code, "ErrorMessage": "no", "ResourceType": 2, "ResourceName": "t"}
    return {"Responses": [row]}


def test_options_are_set_one_by_one(admin):
    responds(admin, DescribeConfigs=ENTRIES, IncrementalAlterConfigs=altered())
    resource = ConfigResource("topic", "t", {"set": 5, "default": (AlterConfigOp.DELETE, "x")})
    assert admin.alter_configs([resource]) == {"topic": {"t": "OK"}}
    rows = last(admin)[1]["Resources"][0]["Configs"]
    assert rows == [
        {"Name": "set", "Value": "5", "ConfigOperation": 0},
        {"Name": "default", "Value": None, "ConfigOperation": 1},
    ]
    with pytest.raises(ValueError, match="Unrecognized configs: "):
        admin.alter_configs([ConfigResource("topic", "t", {"nonsense": 1})])
    responds(admin, IncrementalAlterConfigs=altered(40))
    found = admin.alter_configs([resource], raise_on_unknown=False)
    assert "InvalidConfigurationError: no" in found["topic"]["t"]


def test_old_brokers_are_told_what_is_set_already(admin):
    admin._client.versions["IncrementalAlterConfigs"] = IncompatibleBrokerVersion("old")
    responds(admin, DescribeConfigs=ENTRIES, AlterConfigs=altered())
    admin.alter_configs([ConfigResource("topic", "t", {"default": 7})])
    rows = last(admin)[1]["Resources"][0]["Configs"]
    assert rows == [{"Name": "set", "Value": "1"}, {"Name": "default", "Value": "7"}]
    with pytest.raises(ValueError, match="can only SET"):
        admin.alter_configs([ConfigResource("topic", "t", {"set": ("append", "7")})])


def test_options_are_reset(admin):
    responds(
        admin, DescribeConfigs=ENTRIES, IncrementalAlterConfigs=altered(), AlterConfigs=altered()
    )
    admin.reset_configs([ConfigResource("topic", "t")])
    rows = last(admin)[1]["Resources"][0]["Configs"]
    assert rows == [{"Name": "set", "Value": None, "ConfigOperation": 1}]
    admin.reset_configs([ConfigResource("topic", "t", ["set"])], incremental=False)
    assert last(admin)[1]["Resources"][0]["Configs"] == []


PASSWORDS = described(
    ("set", "1", 1, False),
    ("ssl.key.password", None, 2, False),
    ("default.password", None, 5, False),
)
PASSWORDS["Results"][0]["Configs"][1]["IsSensitive"] = True
PASSWORDS["Results"][0]["Configs"][2]["IsSensitive"] = True


def test_the_older_call_does_not_reset_passwords_that_brokers_hide(admin):
    responds(admin, DescribeConfigs=PASSWORDS, AlterConfigs=altered())
    about = "options of topic 't' whose .* show: ssl.key.password. Use incremental=True .*"
    for call, advice in ((admin.alter_configs, "pass"), (admin.reset_configs, "name")):
        with pytest.raises(ValueError, match=about + advice):
            call([ConfigResource("topic", "t", {"set": "5"})], incremental=False)
    assert {api for api, *_ in admin._client.requests} == {"DescribeConfigs"}
    given = ConfigResource("topic", "t", {"ssl.key.password": "new"})
    admin.alter_configs([given], incremental=False)
    assert last(admin)[1]["Resources"][0]["Configs"] == [
        {"Name": "set", "Value": "1"},
        {"Name": "ssl.key.password", "Value": "new"},
    ]
    admin.reset_configs([ConfigResource("topic", "t", ["ssl.key.password"])], incremental=False)
    assert last(admin)[1]["Resources"][0]["Configs"] == [{"Name": "set", "Value": "1"}]


def test_without_names_passwords_are_reset_too(admin):
    responds(
        admin, DescribeConfigs=PASSWORDS, IncrementalAlterConfigs=altered(), AlterConfigs=altered()
    )
    admin.reset_configs([ConfigResource("topic", "t")])
    rows = last(admin)[1]["Resources"][0]["Configs"]
    assert rows == [
        {"Name": name, "Value": None, "ConfigOperation": 1} for name in ("set", "ssl.key.password")
    ]
    admin.reset_configs([ConfigResource("topic", "t")], incremental=False)
    assert last(admin)[1]["Resources"][0]["Configs"] == []


def test_resources_with_options_are_listed(admin):
    rows = [{"ResourceName": "g", "ResourceType": 32}, {"ResourceName": "h", "ResourceType": 32}]
    responds(admin, ListConfigResources={"ErrorCode": 0, "ConfigResources": rows})
    assert admin.list_config_resources(["group"]) == {"group": ["g", "h"]}
    assert last(admin)[1] == {"ResourceTypes": [32]}


def test_a_secret_value_is_sent(admin):
    responds(admin, IncrementalAlterConfigs=altered())
    given = {"ssl.keystore.password": Secret("hunter2"), "set": (AlterConfigOp.SET, Secret("x"))}
    admin.alter_configs([ConfigResource("topic", "t", given)], raise_on_unknown=False)
    rows = last(admin)[1]["Resources"][0]["Configs"]
    assert [row["Value"] for row in rows] == ["hunter2", "x"]


def test_pairs_in_place_of_a_dict_are_refused_without_their_values(admin):
    responds(admin, DescribeConfigs=ENTRIES)
    with pytest.raises(TypeError, match="must be a dict") as caught:
        admin.alter_configs([ConfigResource("topic", "t", [("password", "hunter2")])])
    assert "hunter2" not in str(caught.value)
