//! One client's metrics: those of its connections and those of its role.

use std::collections::BTreeMap;

use thalweg_cluster::metrics::MetricGroup;

/// Merges groups of the same name, sorts them by name, and adds `kafka-metrics-count`.
pub(crate) fn merged(parts: impl IntoIterator<Item = MetricGroup>) -> Vec<MetricGroup> {
    let mut groups = BTreeMap::new();
    for MetricGroup { name, values } in parts {
        let group: &mut Vec<_> = groups.entry(name).or_default();
        group.extend(values);
    }
    let count = 1 + groups.values().map(Vec::len).sum::<usize>();
    groups.insert(
        "kafka-metrics-count".to_owned(),
        vec![("count", count as f64)],
    );
    groups
        .into_iter()
        .map(|(name, values)| MetricGroup { name, values })
        .collect()
}
