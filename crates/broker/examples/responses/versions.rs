//! `ApiVersions` and `DescribeCluster`.

use thalweg_protocol::messages::{api_versions, describe_cluster};

use crate::client::Client;

pub(crate) fn ask(client: &mut Client) {
    let request = api_versions::ApiVersionsRequest {
        client_software_name: "responses".into(),
        client_software_version: "1".into(),
    };
    client.ask("api versions", &request, 0);
    client.ask("api versions", &request, 3);
    client.ask("api versions", &request, 4);
    let nameless = api_versions::ApiVersionsRequest::default();
    client.ask("api versions, nameless", &nameless, 3);
    let odd = api_versions::ApiVersionsRequest {
        client_software_name: "-responses-".into(),
        ..request
    };
    client.ask("api versions, odd name", &odd, 3);
    client.ask_all(
        "describe cluster",
        &describe_cluster::DescribeClusterRequest::default(),
    );
    let controllers = describe_cluster::DescribeClusterRequest {
        endpoint_type: 2,
        ..Default::default()
    };
    client.ask("describe cluster, controllers", &controllers, 1);
    let operations = describe_cluster::DescribeClusterRequest {
        include_cluster_authorized_operations: true,
        ..Default::default()
    };
    client.ask("describe cluster, operations", &operations, 1);
}
