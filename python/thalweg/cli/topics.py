"""`thalweg topics` lists, describes, creates and deletes topics."""

import argparse
from typing import Any

from thalweg.cli.options import add_client_arguments, client_config, pairs

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the actions and their arguments."""
    add_client_arguments(parser)
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="print the names of all topics")
    describe = actions.add_parser(
        "describe", help="print the partitions, leaders and replicas of topics"
    )
    describe.add_argument("names", nargs="+", metavar="TOPIC")
    create = actions.add_parser("create", help="create topics")
    create.add_argument("names", nargs="+", metavar="TOPIC")
    create.add_argument(
        "--partitions",
        type=int,
        metavar="N",
        default=-1,
        help="number of partitions (default: the broker's num.partitions)",
    )
    create.add_argument(
        "--replication-factor",
        type=int,
        metavar="N",
        default=-1,
        help="replicas of each partition (default: the broker's default.replication.factor)",
    )
    create.add_argument(
        "--topic-config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set a topic option, for example retention.ms=-1; may be repeated",
    )
    delete = actions.add_parser("delete", help="delete topics and their records")
    delete.add_argument("names", nargs="+", metavar="TOPIC")
    for action in (listing, describe, create, delete):
        add_client_arguments(action, of_action=True)


def run(arguments: argparse.Namespace) -> int:
    """Runs the action."""
    from thalweg.admin import KafkaAdminClient

    with KafkaAdminClient.from_config(client_config(arguments)) as admin:
        if arguments.action == "list":
            for name in sorted(admin.list_topics()):
                print(name)
        elif arguments.action == "describe":
            return _describe(admin, arguments.names)
        elif arguments.action == "create":
            _create(admin, arguments)
        else:
            admin.delete_topics(arguments.names)
    return 0


def _create(admin: Any, arguments: argparse.Namespace) -> None:
    options = {
        "num_partitions": arguments.partitions,
        "replication_factor": arguments.replication_factor,
        "configs": pairs(arguments.topic_config, "--topic-config"),
    }
    admin.create_topics(dict.fromkeys(arguments.names, options), wait_for_metadata=True)


def _describe(admin: Any, names: list[str]) -> int:
    from thalweg.errors import for_code

    status = 0
    for topic in admin.describe_topics(names):
        if topic["error_code"]:
            print(f"{topic['name']}: {for_code(topic['error_code']).message}")
            status = 1
            continue
        print(f"{topic['name']}: {len(topic['partitions'])} partitions, id {topic['topic_id']}")
        for row in sorted(topic["partitions"], key=lambda each: each["partition_index"]):
            print(
                f"  {row['partition_index']}: leader {row['leader_id']},"
                f" replicas {row['replica_nodes']}, in sync {row['isr_nodes']}"
            )
    return status
