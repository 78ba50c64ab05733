//! Converts resolved options to the configuration structs of the crates.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use thalweg_cluster::{Address, AllowedHosts};
use thalweg_consumer::{ConsumerConfig, IsolationLevel, OffsetReset};
use thalweg_network::sasl::{SaslConfig, ScramConfig, ScramHash, Secret};
use thalweg_network::tls::{Pem, TlsConfig};
use thalweg_network::{ClientConfig, SecurityProtocol};
use thalweg_producer::{Acks, Partitioner, ProducerConfig};
use thalweg_protocol::Str;
use thalweg_records::Compression;

use crate::convert::options::{Options, duration_ms};
use crate::convert::tls::PreparedTls;
use crate::convert::{aws, kerberos, passwords, tokens};

/// Reads the options of every client, `CoreClientConfig` in Python.
pub(crate) fn client(options: &mut Options<'_>) -> PyResult<ClientConfig> {
    let mut config = ClientConfig::default();
    let servers: Vec<(String, u16)> = options.get("bootstrap_servers")?.unwrap_or_default();
    config.bootstrap_servers = servers
        .into_iter()
        .map(|(host, port)| Address::new(host, port))
        .collect();
    config.advertised_hosts_allowed = options
        .get::<Vec<String>>("advertised_hosts_allowed")?
        .map(AllowedHosts::new);
    config.client_id = options.get("client_id")?;
    options.set_ms("bootstrap_timeout_ms", &mut config.bootstrap_timeout)?;
    options.set_ms("request_timeout_ms", &mut config.request_timeout)?;
    config.connections_max_idle = match options.get::<f64>("connections_max_idle_ms")? {
        Some(ms) => duration_ms(ms),
        None => duration_ms(f64::INFINITY),
    };
    options.set_ms("reconnect_backoff_ms", &mut config.reconnect_backoff)?;
    options.set_ms(
        "reconnect_backoff_max_ms",
        &mut config.reconnect_backoff_max,
    )?;
    options.set_ms("retry_backoff_ms", &mut config.retry_backoff)?;
    options.set_ms("retry_backoff_max_ms", &mut config.retry_backoff_max)?;
    options.set_ms(
        "socket_connection_setup_timeout_ms",
        &mut config.socket_connection_setup_timeout,
    )?;
    options.set_ms(
        "socket_connection_setup_timeout_max_ms",
        &mut config.socket_connection_setup_timeout_max,
    )?;
    options.set(
        "max_in_flight_requests_per_connection",
        &mut config.max_in_flight_requests_per_connection,
    )?;
    options.set(
        "receive_message_max_bytes",
        &mut config.receive_message_max_bytes,
    )?;
    config.receive_buffer_bytes = options.get("receive_buffer_bytes")?;
    config.send_buffer_bytes = options.get("send_buffer_bytes")?;
    options.set("metrics_num_samples", &mut config.metrics.num_samples)?;
    options.set_ms(
        "metrics_sample_window_ms",
        &mut config.metrics.sample_window,
    )?;
    options.set_ms("metadata_max_age_ms", &mut config.metadata_max_age)?;
    options.set_ms("metadata_max_idle_ms", &mut config.metadata_max_idle)?;
    if let Some(strategy) = options.get::<String>("metadata_recovery_strategy")? {
        config.metadata_recovery_rebootstrap = strategy == "rebootstrap";
    }
    options.set_ms(
        "metadata_recovery_rebootstrap_trigger_ms",
        &mut config.metadata_recovery_rebootstrap_trigger,
    )?;
    options.set(
        "allow_auto_create_topics",
        &mut config.allow_auto_create_topics,
    )?;
    // The table has these options, but they have no effect here: names are already resolved, and
    // TCP_NODELAY is always on. `thalweg.config` warns about other values.
    for ignored in ["client_dns_lookup", "socket_options"] {
        options.ignore(ignored);
    }
    security(options, &mut config)?;
    Ok(config)
}

/// Reads only what the files of TLS need.
pub(crate) fn for_tls(options: &mut Options<'_>) -> PyResult<ClientConfig> {
    let mut config = ClientConfig::default();
    set_protocol(options, &mut config)?;
    tls(options, &mut config.tls)?;
    options.set_ms(
        "socket_connection_setup_timeout_max_ms",
        &mut config.socket_connection_setup_timeout_max,
    )?;
    Ok(config)
}

fn security(options: &mut Options<'_>, config: &mut ClientConfig) -> PyResult<()> {
    set_protocol(options, config)?;
    tls(options, &mut config.tls)?;
    config.tls_prepared = options
        .get::<PyRef<'_, PreparedTls>>("tls")?
        .and_then(|prepared| prepared.get());
    let (password, source) = passwords::password(options)?;
    config.sasl = sasl(options, password)?;
    config.sasl_password = source;
    Ok(())
}

fn set_protocol(options: &mut Options<'_>, config: &mut ClientConfig) -> PyResult<()> {
    if let Some(name) = options.get::<String>("security_protocol")? {
        config.security_protocol = SecurityProtocol::from_name(&name)
            .ok_or_else(|| unknown("security_protocol", &name))?;
    }
    Ok(())
}

fn tls(options: &mut Options<'_>, config: &mut TlsConfig) -> PyResult<()> {
    options.set("ssl_verify", &mut config.verify)?;
    options.set("ssl_check_hostname", &mut config.check_hostname)?;
    options.set("ssl_ciphers", &mut config.offer.ciphers)?;
    options.set("ssl_curves_list", &mut config.offer.curves)?;
    options.set("ssl_enabled_protocols", &mut config.offer.protocols)?;
    config.ca = options.get_text("ssl_cafile")?.map(pem);
    config.cert = options.get_text("ssl_certfile")?.map(pem);
    config.key = options.get_text("ssl_keyfile")?.map(pem);
    config.crl = options.get_text("ssl_crlfile")?.map(pem);
    config.keylog = options.get_text("ssl_keylog_file")?.map(Into::into);
    options.set("ssl_context", &mut config.from_context)?;
    if let Some(ms) = options.get::<f64>("ssl_reload_interval_ms")? {
        config.reload_interval = (ms > 0.0).then(|| duration_ms(ms));
    }
    config.password = passwords::of_file(options, "ssl_password")?;
    config.store_password = passwords::of_file(options, "ssl_keystore_password")?;
    config.ca_password = passwords::of_file(options, "ssl_truststore_password")?;
    Ok(())
}

fn sasl(options: &mut Options<'_>, password: Secret) -> PyResult<Option<SaslConfig>> {
    let mechanism: Option<String> = options.get("sasl_mechanism")?;
    let username: String = options.get("sasl_plain_username")?.unwrap_or_default();
    let tokenauth = options.get("sasl_scram_tokenauth")?;
    let iterations_max = options.get("sasl_scram_iterations_max")?;
    let oauthbearer = tokens::oauthbearer(options)?;
    let logins = aws::logins(options)?;
    let gssapi = kerberos::gssapi(options)?;
    let hash = match mechanism.as_deref() {
        Some("PLAIN") => return Ok(Some(SaslConfig::Plain { username, password })),
        Some("SCRAM-SHA-256") => ScramHash::Sha256,
        Some("SCRAM-SHA-512") => ScramHash::Sha512,
        Some("OAUTHBEARER") => {
            let without = || PyValueError::new_err("OAUTHBEARER needs sasl_oauth_token_provider");
            let config = oauthbearer.ok_or_else(without)?;
            return Ok(Some(SaslConfig::OAuthBearer(config)));
        }
        Some("AWS_MSK_IAM") => {
            let without = || PyValueError::new_err("AWS_MSK_IAM needs sasl_aws_credentials");
            return Ok(Some(SaslConfig::AwsMskIam(logins.ok_or_else(without)?)));
        }
        Some("GSSAPI") => return Ok(Some(SaslConfig::Gssapi(gssapi))),
        Some(other) => return Err(unknown("sasl_mechanism", other)),
        None => return Ok(None),
    };
    let mut scram = ScramConfig::new(hash, username, password);
    scram.tokenauth = tokenauth.unwrap_or(scram.tokenauth);
    scram.iterations_max = iterations_max.unwrap_or(scram.iterations_max);
    Ok(Some(SaslConfig::Scram(scram)))
}

/// Reads PEM text, or the path of a file with it.
fn pem(text: String) -> Pem {
    if text.contains("-----BEGIN ") {
        Pem::Inline(text)
    } else {
        Pem::File(text.into())
    }
}

/// `thalweg.config` has checked every value. An unknown one must not become a default.
fn unknown(option: &str, word: &str) -> PyErr {
    PyValueError::new_err(format!("{option} {word:?} is unknown"))
}

/// Reads a producer's options, `CoreProducerConfig` in Python, except those of the binding itself.
pub(crate) fn producer(options: &mut Options<'_>) -> PyResult<ProducerConfig> {
    let acks = match options.get::<i64>("acks")? {
        Some(0) => Acks::None,
        Some(1) => Acks::Leader,
        Some(-1) | None => Acks::All,
        Some(other) => return Err(unknown("acks", &other.to_string())),
    };
    let mut config = ProducerConfig {
        acks,
        ..ProducerConfig::default()
    };
    options.set("enable_idempotence", &mut config.enable_idempotence)?;
    config.transactional_id = options.get("transactional_id")?;
    options.set_ms("transaction_timeout_ms", &mut config.transaction_timeout)?;
    options.set_ms("delivery_timeout_ms", &mut config.delivery_timeout)?;
    if let Some(retries) = options.get::<i64>("retries")? {
        config.retries = u32::try_from(retries).unwrap_or(u32::MAX);
    }
    if let Some(name) = options.get::<String>("compression_type")? {
        config.compression =
            Compression::from_name(&name).ok_or_else(|| unknown("compression_type", &name))?;
    }
    config.compression_level = options.get("compression_level")?;
    options.set("batch_size", &mut config.batch_size)?;
    options.set_ms("linger_ms", &mut config.linger)?;
    options.set("buffer_memory", &mut config.buffer_memory)?;
    options.set("max_request_size", &mut config.max_request_size)?;
    if let Some(name) = options.get::<String>("partitioner")? {
        config.partitioner = match name.as_str() {
            "round_robin" => Partitioner::RoundRobin,
            "consistent_random" => Partitioner::ConsistentRandom,
            "default" | "murmur2_random" => Partitioner::BuiltIn,
            other => return Err(unknown("partitioner", other)),
        };
    }
    options.set(
        "partitioner_ignore_keys",
        &mut config.partitioner_ignore_keys,
    )?;
    options.set(
        "partitioner_adaptive_partitioning_enable",
        &mut config.partitioner_adaptive_partitioning,
    )?;
    options.set_ms(
        "partitioner_availability_timeout_ms",
        &mut config.partitioner_availability_timeout,
    )?;
    Ok(config)
}

/// Reads a consumer's options, `CoreConsumerConfig` in Python, except those of the binding itself.
pub(crate) fn consumer(options: &mut Options<'_>) -> PyResult<ConsumerConfig> {
    let group_id = options.get::<String>("group_id")?.map(Str::from);
    let mut config = ConsumerConfig {
        group_id,
        ..ConsumerConfig::default()
    };
    options.ignore("group_instance_id");
    if let Some(rack) = options.get::<String>("client_rack")? {
        config.client_rack = Str::from(rack);
    }
    let duration = options.get::<f64>("auto_offset_reset_by_duration_ms")?;
    if let Some(name) = options.get::<String>("auto_offset_reset")? {
        config.auto_offset_reset = match name.as_str() {
            "earliest" => OffsetReset::Earliest,
            "none" => OffsetReset::None,
            "by_duration" => OffsetReset::ByDuration(duration_ms(duration.unwrap_or(0.0))),
            "latest" => OffsetReset::Latest,
            other => return Err(unknown("auto_offset_reset", other)),
        };
    }
    if let Some(name) = options.get::<String>("isolation_level")? {
        config.isolation_level = match name.as_str() {
            "read_committed" => IsolationLevel::ReadCommitted,
            "read_uncommitted" => IsolationLevel::ReadUncommitted,
            other => return Err(unknown("isolation_level", other)),
        };
    }
    options.set("check_crcs", &mut config.check_crcs)?;
    options.set("fetch_min_bytes", &mut config.fetch_min_bytes)?;
    options.set_ms("fetch_max_wait_ms", &mut config.fetch_max_wait)?;
    options.set("fetch_max_bytes", &mut config.fetch_max_bytes)?;
    options.set(
        "max_partition_fetch_bytes",
        &mut config.max_partition_fetch_bytes,
    )?;
    options.set("fetch_buffer_memory", &mut config.fetch_buffer_memory_bytes)?;
    options.set(
        "enable_incremental_fetch_sessions",
        &mut config.enable_incremental_fetch_sessions,
    )?;
    Ok(config)
}

/// Copies the retry and request times that a producer shares with its client.
pub(crate) fn align_producer(config: &mut ProducerConfig, client: &ClientConfig) {
    config.request_timeout = client.request_timeout;
    config.retry_backoff = client.retry_backoff;
    config.retry_backoff_max = client.retry_backoff_max;
    config.max_in_flight_requests_per_connection = client.max_in_flight_requests_per_connection;
    config.metrics = client.metrics;
}

/// Copies the retry and request times that a consumer shares with its client.
pub(crate) fn align_consumer(config: &mut ConsumerConfig, client: &ClientConfig) {
    config.request_timeout = client.request_timeout;
    config.retry_backoff = client.retry_backoff;
    config.retry_backoff_max = client.retry_backoff_max;
    config.metadata_max_age = client.metadata_max_age;
    config.metrics = client.metrics;
}
