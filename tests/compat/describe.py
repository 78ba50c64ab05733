"""Prints the public interface of a package like kafka-python, as JSON.

    python describe.py FOLDER PACKAGE ──> modules, names, signatures, defaults, errors, structs

It runs in its own process because two versions of kafka-python cannot be imported into one.
"""

import enum
import importlib
import inspect
import json
import pkgutil
import sys
import warnings
from typing import Any

# Parts that no application imports. Their modules are not compared.
INTERNAL = ("benchmarks", "cli", "metrics", "net", "protocol", "record", "sasl", "vendor")
CLIENTS = ("KafkaProducer", "KafkaConsumer", "KafkaAdminClient")
# Names that applications import from the modules in which kafka-python defines them.
DEEP_IMPORTS = (
    ("admin.acl_resource", "ACL"),
    ("admin.acl_resource", "ACLFilter"),
    ("admin.acl_resource", "ACLOperation"),
    ("admin.acl_resource", "ACLPermissionType"),
    ("admin.acl_resource", "ACLResourcePatternType"),
    ("admin.acl_resource", "ResourcePattern"),
    ("admin.acl_resource", "ResourcePatternFilter"),
    ("admin.acl_resource", "ResourceType"),
    ("admin.client", "KafkaAdminClient"),
    ("admin.config_resource", "ConfigResource"),
    ("admin.config_resource", "ConfigResourceType"),
    ("admin.new_partitions", "NewPartitions"),
    ("admin.new_topic", "NewTopic"),
    ("consumer.fetcher", "ConsumerRecord"),
    ("consumer.group", "KafkaConsumer"),
    ("consumer.subscription_state", "AsyncConsumerRebalanceListener"),
    ("consumer.subscription_state", "ConsumerRebalanceListener"),
    ("coordinator.assignors.abstract", "AbstractPartitionAssignor"),
    ("coordinator.assignors.cooperative_sticky", "CooperativeStickyAssignor"),
    ("coordinator.assignors.range", "RangePartitionAssignor"),
    ("coordinator.assignors.roundrobin", "RoundRobinPartitionAssignor"),
    ("coordinator.assignors.sticky.sticky_assignor", "StickyPartitionAssignor"),
    ("partitioner.abc", "Partitioner"),
    ("partitioner.default", "DefaultPartitioner"),
    ("partitioner.default", "murmur2"),
    ("partitioner.sticky", "StickyPartitioner"),
    ("producer.future", "FutureRecordMetadata"),
    ("producer.future", "RecordMetadata"),
    ("producer.kafka", "KafkaProducer"),
    ("serializer.abstract", "Deserializer"),
    ("serializer.abstract", "Serializer"),
    ("serializer.default", "DefaultSerializer"),
    ("serializer.json", "JsonSerializer"),
    ("serializer.wrapper", "DeserializeWrapper"),
    ("serializer.wrapper", "SerializeWrapper"),
    ("version", "__version__"),
)
PUBLIC = ("", "admin", "consumer", "errors", "partitioner", "producer", "serializer", "structs")


def modules(package: Any) -> list[str]:
    """Returns the paths of all modules below the package's own."""
    found = []
    for each in pkgutil.walk_packages(package.__path__):
        inner = [
            name.name
            for name in pkgutil.walk_packages([f"{package.__path__[0]}/{each.name}"])
            if each.ispkg
        ]
        if each.name in INTERNAL or each.name == "__main__":
            continue
        found += [each.name, *(f"{each.name}.{name}" for name in inner if name != "__main__")]
    return sorted(found)


def own(module: Any, package: str) -> list[str]:
    """Returns public names of a module that the package defines, or that the module lists."""
    listed = set(getattr(module, "__all__", ()))
    return sorted(
        name
        for name in {*dir(module), *listed}
        if not name.startswith("_")
        and not inspect.ismodule(getattr(module, name))
        and (
            name in listed
            or str(getattr(getattr(module, name), "__module__", "")).split(".")[0] == package
        )
    )


def parameters(function: Any) -> list[list[Any]] | None:
    """Returns [name, kind, default's text] per parameter except self, or None if unknown."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [
        [each.name, each.kind.name, None if each.default is each.empty else plain(each.default)]
        for each in found
        if each.name not in ("self", "cls")
    ]


def plain(value: Any) -> str:
    """Returns a default as text that is equal for both packages."""
    if isinstance(value, type):
        return value.__name__
    if callable(value):
        return "callable"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(plain, value))}]"
    if type(value).__module__ != "builtins":
        return type(value).__name__
    return repr(value)


def methods(kind: Any) -> dict[str, Any]:
    """Returns signatures of a class's public methods, or None for other members."""
    return {
        name: parameters(member) if callable(member) else None
        for name, member in inspect.getmembers(kind)
        if not name.startswith("_") and name not in ("DEFAULT_CONFIG", "DEPRECATED_CONFIGS")
    }


def errors(module: Any) -> dict[str, Any]:
    """Returns every error class with its bases and attributes."""
    return {
        name: {
            "bases": [base.__name__ for base in kind.__mro__[1:]],
            "errno": getattr(kind, "errno", None),
            "message": getattr(kind, "message", None),
            "retriable": getattr(kind, "retriable", None),
            "invalid_metadata": getattr(kind, "invalid_metadata", None),
        }
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, BaseException)
    }


def structs(module: Any) -> dict[str, Any]:
    """Returns fields and defaults of every namedtuple."""
    kinds: list[tuple[str, Any]] = inspect.getmembers(module, inspect.isclass)
    return {
        name: {
            "fields": list(kind._fields),
            "defaults": {field: plain(each) for field, each in kind._field_defaults.items()},
        }
        for name, kind in kinds
        if hasattr(kind, "_fields")
    }


def constructors(module: Any) -> dict[str, Any]:
    """Returns the constructor parameters of a module's classes."""
    return {
        name: parameters(kind)
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__.split(".")[0] == module.__name__.split(".")[0]
        and not name.startswith("_")
        and not issubclass(kind, BaseException)
    }


def deep(package: str) -> list[str]:
    """Returns the members of DEEP_IMPORTS that resolve."""
    found = []
    for path, name in DEEP_IMPORTS:
        try:
            getattr(importlib.import_module(f"{package}.{path}"), name)
        except (ImportError, AttributeError):
            continue
        found.append(f"{path}.{name}")
    return found


def api_versions(package: str) -> list[list[Any]]:
    """Returns [broker version, {API: (least, highest)}]: kafka-python 3 infers versions from it."""
    try:
        data = importlib.import_module(f"{package}.protocol.broker_version_data")
    except ImportError:
        return []
    return [
        [
            data.infer_broker_version_from_api_versions(apis),
            {data.ApiKey(key).name: versions for key, versions in apis.items()},
        ]
        for apis in data.BROKER_API_VERSIONS.values()
    ]


def describe(package: str) -> dict[str, Any]:
    """Returns everything that is compared."""
    root = importlib.import_module(package)
    parts = {
        part: importlib.import_module(f"{package}.{part}" if part else package) for part in PUBLIC
    }

    def record(theirs: str, ours: str, name: str) -> Any:
        part = theirs if package == "kafka" else ours
        return getattr(importlib.import_module(f"{package}.{part}"), name)

    future = record("producer.future", "producer", "FutureRecordMetadata")
    return {
        "modules": modules(root),
        "deep": deep(package),
        "api_versions": api_versions(package),
        "names": {part: own(module, package) for part, module in parts.items()},
        "methods": {name: methods(getattr(root, name)) for name in CLIENTS}
        | {"FutureRecordMetadata": methods(future)},
        "defaults": {
            name: {
                option: plain(value) for option, value in getattr(root, name).DEFAULT_CONFIG.items()
            }
            for name in CLIENTS
        },
        "errors": errors(parts["errors"]),
        "structs": structs(parts["structs"]),
        "constructors": {
            part: constructors(parts[part]) for part in ("admin", "serializer", "partitioner")
        },
        "records": {
            "ConsumerRecord": list(
                record("consumer.fetcher", "consumer", "ConsumerRecord")._fields
            ),
            "RecordMetadata": list(record("producer.future", "producer", "RecordMetadata")._fields),
        },
        "enums": {
            name: {member: plain(each.value) for member, each in kind.__members__.items()}
            for part in ("admin", "")
            for name, kind in inspect.getmembers(parts[part], inspect.isclass)
            if issubclass(kind, enum.Enum)
        },
        "callables": {
            "partitioner.murmur2": parameters(parts["partitioner"].murmur2),
            "errors.for_code": parameters(parts["errors"].for_code),
        },
    }


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    warnings.simplefilter("ignore")
    print(json.dumps(describe(sys.argv[2])))
