"""Options of topics, brokers, groups and clients' metrics: describe and alter."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from thalweg._client.arguments import shown
from thalweg._config.secret import revealed
from thalweg.admin.naming import FlexibleEnum, member_of, snake_keys
from thalweg.admin.requests import Requests
from thalweg.errors import IncompatibleBrokerVersion, UnsupportedVersionError, for_code

__all__ = [
    "AlterConfigOp",
    "ConfigFilterType",
    "ConfigRequests",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSourceType",
    "ConfigType",
    "describe_entry",
]

_TYPES_VERSION = 1  # ListConfigResources by type
# Options that brokers accept, but describe only if they are set.
_NOT_DESCRIBED = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)


class ConfigResourceType(FlexibleEnum, IntEnum):
    """The types of resources that have options."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSourceType(FlexibleEnum, IntEnum):
    """The source of an option's value."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    def is_modified(self) -> bool:
        """Whether the value was set for this resource, and is not a default."""
        return self not in (
            self.DYNAMIC_DEFAULT_BROKER_CONFIG,
            self.STATIC_BROKER_CONFIG,
            self.DEFAULT_CONFIG,
        )


class ConfigType(FlexibleEnum, IntEnum):
    """The type of an option's value."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class AlterConfigOp(FlexibleEnum, IntEnum):
    """The operations on an option (KIP-339). APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigFilterType(FlexibleEnum, IntEnum):
    """Which options `describe_configs` returns."""

    ALL = 0
    DYNAMIC = 1
    MODIFIED = 2
    DEFAULT = 3
    STATIC = 4

    def keeps(self, source: ConfigSourceType, read_only: bool) -> bool:
        """Whether an option of this source passes the filter."""
        if self is self.DYNAMIC:
            return not read_only
        if self is self.MODIFIED:
            return source.is_modified()
        if self is self.DEFAULT:
            return not source.is_modified()
        if self is self.STATIC:
            return source is ConfigSourceType.STATIC_BROKER_CONFIG
        return True


class ConfigResource:
    """A resource with options, such as a topic or a broker, and the options to describe or set.

    Args:
        resource_type: A ConfigResourceType, or its name.
        name: The name of a topic, the node ID of a broker, and so on. "" with the type BROKER: the
            defaults for all brokers.
        configs: For `describe_configs`, the names of options (None: all). For `alter_configs`,
            {name: value} or {name: (AlterConfigOp, value)}.
    """

    def __init__(
        self, resource_type: ConfigResourceType | str | int, name: str | int, configs: Any = None
    ) -> None:
        self.resource_type = ConfigResourceType.build_from(resource_type)
        self.name = str(name) if isinstance(name, int) else name
        self.configs = configs

    def __repr__(self) -> str:
        return f"ConfigResource {self.resource_type!s}={self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigResource) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


# The filters that keep the options of the default of all brokers. All of them were set there.
_OF_DEFAULT = (ConfigFilterType.ALL, ConfigFilterType.DYNAMIC, ConfigFilterType.MODIFIED)


def _is_brokers_default(resource_type: int, name: str) -> bool:
    """Whether a resource is the default of all brokers."""
    return resource_type == ConfigResourceType.BROKER and name == ""


def describe_entry(row: Mapping[str, Any], resource_type: str) -> tuple[str, dict[str, Any]]:
    """Returns (name, entry) of one described option, with names in place of numeric codes."""
    entry = dict(row)
    name = entry.pop("name")
    for field, kind in (("config_source", ConfigSourceType), ("config_type", ConfigType)):
        if field in entry:
            entry[field] = member_of(kind, entry[field]).name
    for synonym in entry.get("synonyms", ()):
        synonym["source"] = member_of(ConfigSourceType, synonym["source"]).name
    return name, entry


def _pairs(configs: Any) -> list[tuple[str, AlterConfigOp, str | None]]:
    if not configs:
        return []
    if not isinstance(configs, Mapping):
        raise TypeError(
            "alter_configs requires configs as a dict of {key: (op, value)} or {key: value},"
            f" got {shown(configs)}"
        )
    found = []
    for name, given in configs.items():
        op, value = given if isinstance(given, tuple) else (AlterConfigOp.SET, given)
        op = AlterConfigOp.build_from(op)
        wanted = None if op is AlterConfigOp.DELETE or value is None else str(revealed(value))
        found.append((name, op, wanted))
    return found


def _resources_given(given: Any) -> list[ConfigResource]:
    expected = "a list of ConfigResource(type, name)"
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise TypeError(f"config_resources must be {expected}, got {shown(given)}")
    found = list(given)
    for index, each in enumerate(found):
        if not (hasattr(each, "resource_type") and hasattr(each, "name")):
            hint = f": use ConfigResource('topic', {each!r})" if isinstance(each, str) else ""
            raise TypeError(
                f"config_resources must be {expected}, but config_resources[{index}] is"
                f" {shown(each)}{hint}"
            )
        # One str would be a list of its letters.
        if isinstance(getattr(each, "configs", None), str | bytes):
            raise TypeError(
                f"config_resources[{index}]: configs must be a list of option names or a dict, not"
                f" {shown(each.configs)}: use [{each.configs!r}]"
            )
    return found


def _check_shown(resource: ConfigResource, kept: Mapping[str, str | None], advice: str) -> None:
    """Checks that AlterConfigs, which resets all options without a value, can keep these options.

    Raises:
        ValueError: If the broker does not show the value of one of them.
    """
    hidden = sorted(name for name, value in kept.items() if value is None)
    if hidden:
        about = f"{resource.resource_type.name.lower()} {resource.name!r}"
        raise ValueError(
            f"AlterConfigs would reset options of {about} whose values the broker does not show:"
            f" {', '.join(hidden)}. Use incremental=True (Kafka 2.3 and newer), {advice}"
        )


class ConfigRequests(Requests):
    """Calls about options."""

    def _by_node(self, resources: Iterable[ConfigResource]) -> dict[Any, list[ConfigResource]]:
        """Groups resources by the node to ask: the broker itself for its own options, else any."""
        found: dict[Any, list[ConfigResource]] = defaultdict(list)
        resources = _resources_given(resources)
        own = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)
        for each in resources:
            node: Any = "any"
            if each.resource_type in own and each.name != "":
                try:
                    node = int(each.name)
                except ValueError:
                    raise ValueError(
                        f"the name of a broker must be its node ID, got {each.name!r}"
                    ) from None
            found[node].append(each)
        return found

    def describe_configs(
        self,
        config_resources: Iterable[ConfigResource],
        include_synonyms: bool = False,
        config_filter: ConfigFilterType | str = "modified",
    ) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
        """Describes options and their values (DescribeConfigs).

        Args:
            config_resources: The resources. Their `configs` name the options. None: all options.
            include_synonyms: Whether to return all values of each option, by precedence.
            config_filter: 'all', 'modified', 'dynamic', 'default' or 'static'.

        Returns:
            {resource type: {name: {option: {value, read_only, is_sensitive, config_source,
            config_type, ...}}}}.

        Raises:
            BrokerResponseError: If a resource cannot be described.
        """
        kept = ConfigFilterType.build_from(config_filter)
        found: dict[str, dict[str, dict[str, dict[str, Any]]]] = defaultdict(dict)
        for node, resources in self._by_node(config_resources).items():
            response = self._call(
                "DescribeConfigs",
                {
                    "Resources": [
                        {
                            "ResourceType": int(each.resource_type),
                            "ResourceName": each.name,
                            "ConfigurationKeys": None
                            if each.configs is None
                            else list(each.configs),
                        }
                        for each in resources
                    ],
                    "IncludeSynonyms": include_synonyms,
                },
                node,
                codes=lambda response: (
                    (row["ErrorCode"], row["ErrorMessage"], f"options of {row['ResourceName']!r}")
                    for row in response["Results"]
                ),
            )
            for row in response["Results"]:
                kind = member_of(ConfigResourceType, row["ResourceType"]).name.lower()
                entries = {}
                default = _is_brokers_default(row["ResourceType"], row["ResourceName"])
                for config in row["Configs"]:
                    source = member_of(ConfigSourceType, config["ConfigSource"])
                    # Brokers describe only those options of the default that are set there.
                    keeps = (
                        kept in _OF_DEFAULT if default else kept.keeps(source, config["ReadOnly"])
                    )
                    if keeps:
                        name, entry = describe_entry(snake_keys(config), kind)
                        entries[name] = entry
                found[kind][row["ResourceName"]] = entries
        return dict(found)

    def list_config_resources(
        self, resource_types: Iterable[ConfigResourceType | str] | None = None
    ) -> dict[str, list[str]]:
        """Lists the resources that have options (ListConfigResources, KIP-1142).

        Args:
            resource_types: Only these types. None: all types. Brokers before 4.1 support only
                CLIENT_METRICS.

        Returns:
            {resource type: [name]}.

        Raises:
            IncompatibleBrokerVersion: If you ask a broker before 4.1 for another type.
        """
        kinds = [int(ConfigResourceType.build_from(each)) for each in resource_types or ()]
        if kinds and self._client.negotiate("ListConfigResources") < _TYPES_VERSION:
            if kinds != [ConfigResourceType.CLIENT_METRICS]:
                raise IncompatibleBrokerVersion(
                    "listing resources by type needs ListConfigResources 1 (Kafka 4.1). Ask only"
                    " for CLIENT_METRICS, or upgrade the brokers"
                )
            kinds = []
        response = self._call(
            "ListConfigResources",
            {"ResourceTypes": kinds},
            codes=lambda response: [(response["ErrorCode"], None, "ListConfigResources")],
        )
        found: dict[str, list[str]] = defaultdict(list)
        for row in response["ConfigResources"]:
            kind = member_of(ConfigResourceType, row["ResourceType"]).name.lower()
            found[kind].append(row["ResourceName"])
        return dict(found)

    def alter_configs(
        self,
        config_resources: Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> dict[str, dict[str, str]]:
        """Sets options (IncrementalAlterConfigs, KIP-339, or AlterConfigs on old brokers).

        Args:
            config_resources: The resources, with `configs` as {name: value} or {name:
                (AlterConfigOp, value)}.
            validate_only: True: only checks the request, and changes nothing.
            raise_on_unknown: True: raises ValueError for unknown option names.
            incremental: None: uses IncrementalAlterConfigs if the brokers support it. False: uses
                AlterConfigs, which resets every option that the request does not contain. So the
                call also sends the other options that are set, with their current values. Brokers
                do not show passwords, so you must pass those that are set.

        Returns:
            {resource type: {name: "OK", or the error}}.

        Raises:
            ValueError: If an option is unknown. With AlterConfigs: if an operation is not SET, or
                if a password is set that `configs` does not contain.
        """
        resources = _resources_given(config_resources)
        if raise_on_unknown:
            self._check_names(resources)
        if incremental is None:
            incremental = self._incremental()
        if not incremental:
            resources = [self._with_what_is_set(each) for each in resources]
        return self._alter(resources, validate_only, incremental)

    def reset_configs(
        self,
        config_resources: Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> dict[str, dict[str, str]]:
        """Resets options to their defaults.

        Args:
            config_resources: The resources, with option names as `configs`. Without names: all
                options that are set.
            validate_only: True: only checks the request, and changes nothing.
            raise_on_unknown: True: raises ValueError for unknown option names.
            incremental: As in `alter_configs`.

        Returns:
            {resource type: {name: "OK", or the error}}.

        Raises:
            ValueError: If an option is unknown, or if AlterConfigs would also reset a password that
                you have not named.
        """
        resources = _resources_given(config_resources)
        if raise_on_unknown:
            self._check_names(resources)
        if incremental is None:
            incremental = self._incremental()
        made = []
        for each in resources:
            is_set = self._what_is_set(each)
            names = list(each.configs or is_set)
            if incremental:
                configs: dict[str, Any] = dict.fromkeys(names, (AlterConfigOp.DELETE, None))
            else:
                configs = {name: value for name, value in is_set.items() if name not in names}
                _check_shown(each, configs, "or also name these options")
            made.append(ConfigResource(each.resource_type, each.name, configs))
        return self._alter(made, validate_only, incremental)

    def _incremental(self) -> bool:
        try:
            self._client.negotiate("IncrementalAlterConfigs")
        except UnsupportedVersionError:
            return False
        return True

    def _entries(self, resource: ConfigResource, config_filter: str) -> dict[str, dict[str, Any]]:
        asked = ConfigResource(resource.resource_type, resource.name)
        response = self.describe_configs([asked], config_filter=config_filter)
        return response[resource.resource_type.name.lower()][resource.name]

    def _check_names(self, resources: Iterable[ConfigResource]) -> None:
        for each in resources:
            known = self._known_names(each)
            if known is None:
                continue
            about = f"{each.resource_type.name.lower()} {each.name!r}"
            names = set(each.configs or ())
            if not all(isinstance(name, str) for name in names):  # pairs may have secrets
                raise TypeError(f"configs of {about} must be a dict of {{name: value}}, or names")
            unknown = names - known
            if unknown:
                raise ValueError(
                    f"Unrecognized configs: {sorted(unknown)} of {about}. Check the names"
                )

    def _known_names(self, resource: ConfigResource) -> set[str] | None:
        """Returns the option names that a resource may have, or None if the broker does not say."""
        if _is_brokers_default(resource.resource_type, resource.name):
            resource = ConfigResource(ConfigResourceType.BROKER, self._node_ids()[0])
        entries = self._entries(resource, "all")
        if resource.resource_type is ConfigResourceType.CLIENT_METRICS and all(
            ConfigSourceType[row["config_source"]].is_modified() for row in entries.values()
        ):
            return None  # Kafka 3.9 describes only the options that are set
        found = {name for name, row in entries.items() if not row["read_only"]}
        if resource.resource_type is ConfigResourceType.BROKER:
            found |= _NOT_DESCRIBED
        return found

    def _what_is_set(self, resource: ConfigResource) -> dict[str, str | None]:
        """Returns the options that are set. Brokers show the value of a password as None."""
        entries = self._entries(resource, "modified")
        return {
            name: entry["value"]
            for name, entry in entries.items()
            if entry["value"] is not None or entry["is_sensitive"]
        }

    def _with_what_is_set(self, resource: ConfigResource) -> ConfigResource:
        given = dict(resource.configs or {})
        is_set = self._what_is_set(resource)
        kept = {name: value for name, value in is_set.items() if name not in given}
        _check_shown(resource, kept, "or also pass the values of these options")
        return ConfigResource(resource.resource_type, resource.name, is_set | given)

    def _alter(
        self, resources: list[ConfigResource], validate_only: bool, incremental: bool
    ) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = defaultdict(dict)
        api = "IncrementalAlterConfigs" if incremental else "AlterConfigs"
        for node, theirs in self._by_node(resources).items():
            body = []
            for each in theirs:
                rows: list[dict[str, Any]] = []
                for name, op, value in _pairs(each.configs):
                    if not incremental and op is not AlterConfigOp.SET:
                        raise ValueError(
                            f"option {name!r} of {each.name!r}: AlterConfigs can only SET options,"
                            f" not {op.name}. {op.name} needs IncrementalAlterConfigs (Kafka 2.3)"
                        )
                    row = {"Name": name, "Value": value}
                    rows.append(row | {"ConfigOperation": int(op)} if incremental else row)
                body.append(
                    {
                        "ResourceType": int(each.resource_type),
                        "ResourceName": each.name,
                        "Configs": rows,
                    }
                )
            response = self._call(api, {"Resources": body, "ValidateOnly": validate_only}, node)
            for row in response["Responses"]:
                kind = member_of(ConfigResourceType, row["ResourceType"]).name.lower()
                wrong = for_code(row["ErrorCode"])
                text = str(wrong(row["ErrorMessage"] or wrong.description))
                found[kind][row["ResourceName"]] = text if row["ErrorCode"] else "OK"
        return dict(found)
