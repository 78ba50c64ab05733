//! `DescribeAcls` // key 29
//! `CreateAcls` // key 30
//! `DeleteAcls` // key 31
//!
//! The checks and texts are those of Kafka's `AclControlManager`. Without an authorizer, all three
//! return `SECURITY_DISABLED`.

use thalweg_protocol::messages::create_acls::{
    AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse,
};
use thalweg_protocol::messages::delete_acls::{
    DeleteAclsFilter, DeleteAclsFilterResult, DeleteAclsMatchingAcl, DeleteAclsRequest,
    DeleteAclsResponse,
};
use thalweg_protocol::messages::describe_acls::{
    AclDescription, DescribeAclsRequest, DescribeAclsResource, DescribeAclsResponse,
};
use thalweg_protocol::{ErrorCode, Str};
use thalweg_security::acl::{
    ACLS_MAX, Acl, AclFilter, Acls, CLUSTER_NAME, Operation, PatternType, Permission, ResourceType,
    canonical_host,
};

use crate::error::ApiError;
use crate::requests::context::Context;
use crate::requests::subject::Subject;

/// Kafka's limit on the deletions of a request.
const DELETIONS_MAX: usize = 10_000;
/// The limit on filters of a request, because each is compared with all rules.
const FILTERS_MAX: usize = 100;
/// The limit on a name, principal or host.
const TEXT_BYTES_MAX: usize = 1000;

impl Subject for DescribeAclsRequest {}
impl Subject for CreateAclsRequest {}
impl Subject for DeleteAclsRequest {}

pub(crate) fn describe(
    context: &mut Context<'_>,
    request: DescribeAclsRequest,
) -> DescribeAclsResponse {
    let filter = AclFilter::from_wire(
        request.resource_type_filter,
        request.pattern_type_filter,
        request.operation,
        request.permission_type,
    );
    let filter = filter.map(|filter| {
        filter.with(
            text(request.resource_name_filter.as_ref()),
            text(request.principal_filter.as_ref()),
            text(request.host_filter.as_ref()),
        )
    });
    let found = acls(context).and_then(|acls| {
        let filter = filter.ok_or_else(unknown_filter)?;
        Ok(acls.matching(&filter))
    });
    match found {
        Ok(found) => DescribeAclsResponse {
            error_message: None,
            resources: by_resource(found),
            ..DescribeAclsResponse::default()
        },
        Err(error) => DescribeAclsResponse {
            error_code: error.code.0,
            error_message: Some(error.message.into()),
            ..DescribeAclsResponse::default()
        },
    }
}

/// The rules are sorted by their resources.
fn by_resource(acls: Vec<Acl>) -> Vec<DescribeAclsResource> {
    let mut resources: Vec<DescribeAclsResource> = Vec::new();
    for acl in acls {
        let resource_type = acl.resource_type.wire_id();
        let pattern_type = acl.pattern_type.wire_id();
        let description = AclDescription {
            principal: acl.principal.into(),
            host: acl.host.into(),
            operation: acl.operation.wire_id(),
            permission_type: acl.permission.wire_id(),
        };
        match resources.last_mut() {
            Some(last)
                if last.resource_type == resource_type
                    && last.pattern_type == pattern_type
                    && *last.resource_name == *acl.name =>
            {
                last.acls.push(description);
            }
            _ => resources.push(DescribeAclsResource {
                resource_type,
                resource_name: acl.name.into(),
                pattern_type,
                acls: vec![description],
            }),
        }
    }
    resources
}

pub(crate) fn create(context: &mut Context<'_>, request: CreateAclsRequest) -> CreateAclsResponse {
    let refused = acls(context).err();
    let results = request.creations.into_iter().map(|creation| {
        let created = match &refused {
            Some(error) => Err(error.clone()),
            None => checked(&creation).and_then(|acl| add(context, acl)),
        };
        let (error_code, error_message) = ApiError::fields(created.err());
        AclCreationResult {
            error_code,
            error_message,
        }
    });
    CreateAclsResponse {
        results: results.collect(),
        ..CreateAclsResponse::default()
    }
}

fn add(context: &mut Context<'_>, acl: Acl) -> Result<(), ApiError> {
    let acls = context.core.acls.as_mut().ok_or_else(no_authorizer)?;
    if acls.create(acl) {
        return Ok(());
    }
    let words = format!("The embedded broker keeps at most {ACLS_MAX} ACLs");
    Err(ApiError::new(ErrorCode::POLICY_VIOLATION, words))
}

/// Checks a rule that a client wants to create.
fn checked(creation: &AclCreation) -> Result<Acl, ApiError> {
    let invalid = |words: String| ApiError::new(ErrorCode::INVALID_REQUEST, words);
    let resource_type = ResourceType::from_wire_id(creation.resource_type)
        .ok_or_else(|| invalid("Invalid resourceType".to_owned()))?;
    let pattern_type = PatternType::from_wire_id(creation.resource_pattern_type)
        .ok_or_else(|| invalid("Invalid patternType".to_owned()))?;
    let operation = Operation::from_wire_id(creation.operation)
        .ok_or_else(|| invalid("Invalid operation".to_owned()))?;
    let permission = Permission::from_wire_id(creation.permission_type)
        .ok_or_else(|| invalid("Invalid permissionType".to_owned()))?;
    let name = creation.resource_name.to_string();
    if name.is_empty() {
        return Err(invalid("Resource name should not be empty".to_owned()));
    }
    if resource_type == ResourceType::Cluster && name != CLUSTER_NAME {
        return Err(invalid(format!(
            "The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        )));
    }
    let principal = creation.principal.to_string();
    match principal.split_once(':') {
        None => {
            return Err(invalid(format!(
                "Could not parse principal from `{principal}` (no colon is present separating the \
                 principal type from the principal name)"
            )));
        }
        Some(("", _) | (_, "")) => {
            return Err(invalid(format!(
                "Could not parse principal from `{principal}`"
            )));
        }
        Some(_) => {}
    }
    // A real Kafka accepts any text. If it is not an address, the ACL has no effect there.
    let host = canonical_host(&creation.host).ok_or_else(|| {
        invalid("Invalid host: it must be an IP address, or * for every host".to_owned())
    })?;
    if [&name, &principal, &host]
        .iter()
        .any(|each| each.len() > TEXT_BYTES_MAX)
    {
        return Err(invalid(format!(
            "The name, principal or host is longer than {TEXT_BYTES_MAX} bytes"
        )));
    }
    Ok(Acl {
        resource_type,
        pattern_type,
        name,
        principal,
        host,
        operation,
        permission,
    })
}

pub(crate) fn delete(context: &mut Context<'_>, request: DeleteAclsRequest) -> DeleteAclsResponse {
    let refused = acls(context).err();
    let is_too_much = request.filters.len() > FILTERS_MAX;
    let mut left = DELETIONS_MAX;
    let results = request.filters.into_iter().map(|filter| {
        let deleted = match &refused {
            Some(error) => Err(error.clone()),
            None if is_too_much => {
                let words = format!("A request may have at most {FILTERS_MAX} filters");
                Err(ApiError::new(ErrorCode::POLICY_VIOLATION, words))
            }
            None => remove(context, &filter, &mut left),
        };
        match deleted {
            Ok(matching_acls) => DeleteAclsFilterResult {
                error_message: None,
                matching_acls,
                ..DeleteAclsFilterResult::default()
            },
            Err(error) => DeleteAclsFilterResult {
                error_code: error.code.0,
                error_message: Some(error.message.into()),
                ..DeleteAclsFilterResult::default()
            },
        }
    });
    DeleteAclsResponse {
        filter_results: results.collect(),
        ..DeleteAclsResponse::default()
    }
}

fn remove(
    context: &mut Context<'_>,
    filter: &DeleteAclsFilter,
    left: &mut usize,
) -> Result<Vec<DeleteAclsMatchingAcl>, ApiError> {
    let known = AclFilter::from_wire(
        filter.resource_type_filter,
        filter.pattern_type_filter,
        filter.operation,
        filter.permission_type,
    );
    let wanted = known.ok_or_else(unknown_filter)?.with(
        text(filter.resource_name_filter.as_ref()),
        text(filter.principal_filter.as_ref()),
        text(filter.host_filter.as_ref()),
    );
    let acls = context.core.acls.as_mut().ok_or_else(no_authorizer)?;
    let found = acls.matching(&wanted);
    if found.len() > *left {
        let words =
            format!("Cannot remove more than {DELETIONS_MAX} acls in a single delete operation.");
        return Err(ApiError::new(ErrorCode::INVALID_REQUEST, words));
    }
    *left -= found.len();
    let deleted = found.into_iter().map(|acl| {
        acls.delete(&acl);
        DeleteAclsMatchingAcl {
            error_message: None,
            resource_type: acl.resource_type.wire_id(),
            resource_name: acl.name.into(),
            pattern_type: acl.pattern_type.wire_id(),
            principal: acl.principal.into(),
            host: acl.host.into(),
            operation: acl.operation.wire_id(),
            permission_type: acl.permission.wire_id(),
            ..DeleteAclsMatchingAcl::default()
        }
    });
    Ok(deleted.collect())
}

/// Returns the rules, if there is an authorizer and the client may use them.
fn acls<'a>(context: &'a Context<'_>) -> Result<&'a Acls, ApiError> {
    match (context.refusal(), &context.core.acls) {
        (Some(code), _) => Err(ApiError::of(code)),
        (None, Some(acls)) => Ok(acls),
        (None, None) => Err(no_authorizer()),
    }
}

fn no_authorizer() -> ApiError {
    ApiError::new(ErrorCode::SECURITY_DISABLED, "No Authorizer is configured.")
}

fn unknown_filter() -> ApiError {
    ApiError::new(
        ErrorCode::INVALID_REQUEST,
        "The filter contains UNKNOWN elements",
    )
}

fn text(field: Option<&Str>) -> Option<String> {
    field.map(ToString::to_string)
}
